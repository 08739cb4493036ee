"""models/hibari: the vocoder against the package's, what is read aloud, and silence cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hibari import dsp
from hibari.g2p import G2P
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.audio.pcm import first_audible, to_int16
from duplex.models.hibari.acoustic import Acoustic, Frames
from duplex.models.hibari.phonemes import MOST, Phonemizer, speakable
from duplex.models.hibari.reader import Reader
from duplex.models.hibari.vocoder import HOP, RATE_HZ, Floats, Vocoder


def made_up(frames: int, *, noise: float = -4.0, seed: int = 5) -> Frames:
    """Spectra that sound like nothing, but exercise every branch: voiced, unvoiced, and steps between."""
    rng = np.random.default_rng(seed)

    def part(mean: float) -> Floats:
        return (mean + rng.standard_normal((601, frames))).astype(np.float32)

    f0 = np.where(np.arange(frames) % 11 < 7, 90 + 10 * rng.random(frames), 3.0).astype(np.float32)
    harmonic, theta, free, phi = part(-3), part(0), part(-5), part(0)
    return Frames(parts=(harmonic, theta, part(noise), free, phi), f0=f0)


def streamed(frames: Frames, sizes: list[int], seed: int = 0) -> Floats:
    vocoder = Vocoder(parts=frames.parts, f0=frames.f0, rng=np.random.default_rng(seed))
    pieces = []
    for turn in range(10_000):
        if vocoder.done:
            break
        pieces.append(vocoder.take(sizes[turn % len(sizes)]))
    return np.concatenate(pieces)


def reference(frames: Frames, seed: int = 0) -> Floats:
    whole: Floats = dsp.synth(*(part.copy() for part in frames.parts), frames.f0, np.random.default_rng(seed))
    return whole


@settings(deadline=None)
@given(st.integers(1, 60), st.lists(st.integers(1, 25), min_size=1, max_size=6))
def test_pieces_are_the_packages_one_shot(count: int, sizes: list[int]) -> None:
    frames = made_up(count, noise=-40.0)
    ours = streamed(frames, sizes)
    assert len(ours) == count * HOP
    assert np.max(np.abs(ours - reference(frames))) < 1e-5


def test_the_noise_does_not_depend_on_the_pieces() -> None:
    frames = made_up(40)
    assert np.max(np.abs(streamed(frames, [7]) - streamed(frames, [40]))) < 1e-6
    assert np.array_equal(streamed(frames, [9, 20]), streamed(frames, [9, 20]))
    assert not np.array_equal(streamed(frames, [9]), streamed(frames, [9], seed=1))


def test_the_noise_is_as_loud_as_the_packages() -> None:
    frames = made_up(400, noise=0.0)
    ours, theirs = streamed(frames, [7]), reference(frames)
    assert abs(20 * np.log10(ours.std() / theirs.std())) < 0.3


def test_the_first_piece_is_two_hops_short_and_the_last_two_long() -> None:
    frames = made_up(20)
    vocoder = Vocoder(parts=frames.parts, f0=frames.f0, rng=np.random.default_rng(0))
    assert [len(vocoder.take(8)) // HOP for _ in range(4)] == [6, 8, 6, 0]
    assert vocoder.done


@pytest.mark.parametrize("count", [1, 30])
def test_the_vocoder_does_not_write_into_its_input(count: int) -> None:
    frames = made_up(count)
    for array in (*frames.parts, frames.f0):
        array.setflags(write=False)
    assert len(streamed(frames, [7])) == count * HOP


def test_no_frames_are_no_audio() -> None:
    frames = made_up(0)
    vocoder = Vocoder(parts=frames.parts, f0=frames.f0, rng=np.random.default_rng(0))
    assert vocoder.done
    assert len(vocoder.take(7)) == 0


def quiet_around(sound: int, before: int, after: int) -> Frames:
    loud = made_up(sound)
    parts = tuple(np.pad(part, ((0, 0), (before, after)), constant_values=-20.0) for part in loud.parts)
    return Frames(parts=parts, f0=np.pad(loud.f0, (before, after)))


def test_silence_is_cut_to_what_was_asked_for() -> None:
    frames = quiet_around(20, 30, 40)
    assert len(frames.trimmed(lead_s=0.0125, tail_s=0.1)) == 1 + 20 + 8
    assert len(frames.trimmed(lead_s=0.0, tail_s=0.0)) == 20
    cut = frames.trimmed(lead_s=0.025, tail_s=0.025)
    assert np.array_equal(cut.parts[0], frames.parts[0][:, 28:52])
    assert np.array_equal(cut.f0, frames.f0[28:52])


def test_silence_is_never_added_and_sound_never_cut() -> None:
    frames = quiet_around(20, 1, 1)
    assert len(frames.trimmed(lead_s=1.0, tail_s=1.0)) == 22
    silent = quiet_around(0, 10, 10)
    assert len(silent.trimmed(lead_s=0.0, tail_s=0.0)) == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("**Hi** _there_, `you`!", "Hi there , you !"),
        ("# Title\n- one\n* two", "Title one two"),
        ("See [the docs](https://example.com/x) now", "See the docs now"),
        ("Great 😀👍🏽 job", "Great job"),
        ("a\x00b\x07c\u200d", "a b c"),
        ("Wow!!!!! -----", "Wow! -"),
        ("5% of $3.50 & café", "5% of $3.50 & café"),
        ("😀", ""),
        ("12345678901234567", "123 456 789 012 345 67"),
    ],
)
def test_only_what_is_said_is_left(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.fixture(scope="module")
def phonemizer() -> Phonemizer:
    return Phonemizer()


def test_text_becomes_padded_symbols(phonemizer: Phonemizer) -> None:
    (symbols,) = phonemizer("Hello there.")
    assert symbols[0] == symbols[-1] == 0
    assert all(symbols[1:-1])
    assert len(symbols) == 2 + 11


@pytest.mark.parametrize("text", ["", " \n", "😀", "...", "你好世界", "—", "\x00", "**", "\u0301"])
def test_nothing_to_say_is_an_empty_list(phonemizer: Phonemizer, text: str) -> None:
    assert phonemizer(text) == []


def test_one_bad_word_does_not_silence_the_others(phonemizer: Phonemizer, monkeypatch: pytest.MonkeyPatch) -> None:
    read = phonemizer._g2p

    def picky(text: str) -> str:
        if "bad" in text:
            raise IndexError("list index out of range")
        return str(read(text))

    monkeypatch.setattr(phonemizer, "_g2p", picky)
    assert phonemizer("good bad day") == phonemizer("good day")
    assert phonemizer("bad") == []


def test_long_text_is_cut_into_runs(phonemizer: Phonemizer) -> None:
    runs = phonemizer("remarkable " * 120)
    assert len(runs) > 1
    assert max(map(len, runs)) <= MOST + 2


@settings(deadline=None)
@given(st.text(max_size=40) | st.text("0123456789.,-:/$% ", max_size=60))
def test_no_text_fails(phonemizer: Phonemizer, text: str) -> None:
    for symbols in phonemizer(text):
        assert len(symbols) > 2


SENTENCES = [
    "I live in Berlin, where live music is played; I read what you read yesterday.",
    "The record shows that they record every object they object to, and present a present.",
    "On March 3rd, 2024, Dr. Smith paid $9.99 for 1,250 grams at 7:30 p.m.",
    "Wow! You're close to the close of play, aren't you? The wind will wind down.",
    "He's the lead singer; lead pipes, a tear in the tear-stained letter, desert the desert.",
]


def test_the_packed_tagger_reads_as_the_package_does() -> None:
    ours, theirs = Reader(), G2P()
    for sentence in SENTENCES:
        assert ours(sentence) == theirs(sentence)
        words = [word for word, _ in theirs.tokenizer(sentence)]
        assert ours.tagger(words) == theirs.tagger(words)
    assert ours.tagger.predict(("no such feature",)) == "NN"


@pytest.mark.models
class TestAcoustic:
    @pytest.fixture
    def acoustic(self, model_path: Callable[[str], Path]) -> Acoustic:
        return Acoustic(model_path("hibari/acoustic.onnx"))

    def test_it_sounds_like_the_package(self, acoustic: Acoustic, phonemizer: Phonemizer) -> None:
        (symbols,) = phonemizer("Yes, that sounds good, but let us wait until the train arrives.")
        frames = acoustic(symbols, speed=1.0)
        assert np.corrcoef(streamed(frames, [9, 7, 20]), reference(frames))[0, 1] >= 0.999

    def test_speed(self, acoustic: Acoustic, phonemizer: Phonemizer) -> None:
        (symbols,) = phonemizer("The sky is blue.")
        slow, fast = (len(acoustic(symbols, speed=speed)) for speed in (0.5, 2.0))
        assert 3 < slow / fast < 5

    def test_the_silence_before_a_clause_goes_and_the_clause_stays(
        self, acoustic: Acoustic, phonemizer: Phonemizer
    ) -> None:
        for text in ("Hello there!", "Of course,", "Finally, yes.", "She sells sea shells."):
            frames = acoustic(phonemizer(text)[0], speed=1.0)
            trimmed = frames.trimmed(lead_s=0.0125, tail_s=0.1)
            assert len(frames) - len(trimmed) > 28
            first = next(k for k in range(len(frames)) if np.array_equal(frames.f0[k:][: len(trimmed)], trimmed.f0))
            whole = to_int16(streamed(frames, [1000]))
            for cut in (whole[: first * HOP], whole[(first + len(trimmed)) * HOP :]):
                assert first_audible(cut, RATE_HZ, threshold_dbfs=-48.0) is None
            heard = first_audible(to_int16(streamed(trimmed, [1000])), RATE_HZ)
            assert heard is not None
            assert heard < 0.1 * RATE_HZ
