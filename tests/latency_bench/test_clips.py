"""The committed clips are what their manifest says."""

from __future__ import annotations

import hashlib
import wave
from itertools import pairwise

import numpy as np
import pytest

from duplex.audio.pcm import first_audible, last_audible, level_dbfs
from latency_bench.clips import FOLDER, Clip, load
from latency_bench.clips.make import pink_noise

CLIPS = load()
each = pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.file)


def test_the_set_is_whole_and_small() -> None:
    assert {clip.file for clip in CLIPS} == {path.name for path in FOLDER.glob("*.wav")}
    assert len(load("turns")) == 20
    assert sum((FOLDER / clip.file).stat().st_size for clip in CLIPS) <= 5_000_000
    assert sum(clip.voice != "hibari heart" for clip in load("turns")) >= 3
    assert {clip.ending for clip in CLIPS} >= {"rising", "falling"}
    assert min(clip.speed for clip in CLIPS) == 0.85
    assert max(clip.speed for clip in CLIPS) == 1.15


def test_hesitations_have_one_pause_each_of_every_length() -> None:
    hesitations = load("hesitations")
    assert len(hesitations) >= 20
    lengths = [pause.length_ms for clip in hesitations for pause in clip.pauses]
    assert len(lengths) == len(hesitations)
    assert {length: lengths.count(length) for length in lengths} == dict.fromkeys((400, 500, 600, 700, 800), 4)


@each
def test_a_clip_is_the_one_that_was_committed(clip: Clip) -> None:
    path = FOLDER / clip.file
    assert hashlib.sha256(path.read_bytes()).hexdigest() == clip.sha256
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)


@each
def test_a_clip_is_loud_enough_and_begins_and_ends_with_speech(clip: Clip) -> None:
    samples = clip.samples(16_000)
    assert 1500 <= clip.length_ms <= 5000
    assert -30 <= level_dbfs(samples) <= -15
    first, last = first_audible(samples, 16_000), last_audible(samples, 16_000)
    assert first is not None
    assert last is not None
    assert first <= 16 * 50
    assert len(samples) - last <= 16 * 50
    assert not (np.abs(samples.astype(int)) >= 32767).any()


@each
def test_pauses_lie_inside_and_are_silent(clip: Clip) -> None:
    if clip.group != "turns":
        assert clip.pauses
    shortest, longest = (400, 800) if clip.group == "hesitations" else (150, 400)
    for pause in clip.pauses:
        assert shortest <= pause.length_ms <= longest
        assert 300 <= pause.at_ms <= clip.length_ms - pause.length_ms - 300
        middle = clip.samples(16_000)[16 * (pause.at_ms + 10) : 16 * (pause.at_ms + pause.length_ms - 10)]
        assert first_audible(middle, 16_000) is None


@each
def test_noise_is_as_quiet_as_promised(clip: Clip) -> None:
    if clip.snr_db is not None:
        assert clip.snr_db >= 25
        assert clip.noise_dbfs == pytest.approx(-22.0 - clip.snr_db)
        for pause in clip.pauses:
            middle = clip.samples(16_000)[16 * (pause.at_ms + 10) : 16 * (pause.at_ms + pause.length_ms - 10)]
            # A stretch of noise that falls with frequency strays some dB from its whole.
            assert level_dbfs(middle) == pytest.approx(clip.noise_dbfs, abs=6.0)


def test_pink_noise_has_its_level_and_falls_with_frequency() -> None:
    noise = pink_noise(16_000 * 4, -47.0, 1)
    power = np.square(np.abs(np.fft.rfft(noise)))
    assert 10 * np.log10(np.mean(np.square(noise))) == pytest.approx(-47.0, abs=0.01)
    octave = [power[4 * low : 8 * low].mean() for low in (200, 400, 800, 1600)]
    assert [round(10 * np.log10(one / two)) for one, two in pairwise(octave)] == [3, 3, 3]
