"""The benchmark `endpoint`: takes of utterances, bars, and real models that say the same twice."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from duplex.audio.pcm import last_audible, level_dbfs
from duplex.config import ComputeConfig
from duplex.connector.payload import Message
from duplex.session.policy import DetectorPolicy
from latency_bench.__main__ import main
from latency_bench.clips import GROUPS
from latency_bench.micro.endpoint import HISTORY, INSTRUCTIONS
from latency_bench.micro.following import follow
from latency_bench.micro.sentences import SENTENCES
from latency_bench.micro.utterances import Utterance, committed, in_a_room, spoken
from latency_bench.micro.verdict import AFTER_HISTORY, ALL_GROUPS, FIRST, SOUND_ALONE, WAYS, Trial, failures, rows
from latency_bench.table import Row
from tests.models.speech import ModelPath

HZ = 16_000


def clip(file: str) -> Utterance:
    return next(one for group in GROUPS for one in committed(group) if one.name == file)


def trial(way: str, silence_ms: float | None, *, group: str = "turns", utterance: str = "a.wav") -> Trial:
    return Trial(group=group, utterance=utterance, seed=0, way=way, silence_ms=silence_ms, pauses=2)


def found(*trials: Trial) -> dict[str, Row]:
    return {row.figure: row for row in rows(trials)}


def test_there_are_fifty_sentences_and_all_clips() -> None:
    assert len(set(SENTENCES)) == len(SENTENCES) == 50
    assert {one.group for group in ALL_GROUPS for one in committed(group)} == set(GROUPS)


def test_a_take_has_its_utterance_between_noise_of_its_room() -> None:
    for utterance in (clip("egg.wav"), clip("capital.wav")):
        take = in_a_room(utterance, 1)
        end = last_audible(take.samples, HZ)
        assert end is not None
        assert abs(end - take.audible_end) <= HZ // 100, "windows of 10 ms begin elsewhere"
        start = take.audible_end - (last_audible(utterance.samples, HZ) or 0)
        assert np.array_equal(take.samples[start : start + len(utterance.samples)], utterance.samples)
        assert level_dbfs(take.samples[:start]) == pytest.approx(utterance.room_dbfs, abs=0.5)
        after = take.samples[start + len(utterance.samples) :]
        assert level_dbfs(after) == pytest.approx(utterance.room_dbfs, abs=0.5)
        assert len(after) > DetectorPolicy().max_silence_ms * HZ // 1000


def test_the_seed_of_a_take_says_everything_of_it() -> None:
    utterance = clip("egg.wav")
    assert np.array_equal(in_a_room(utterance, 1).samples, in_a_room(utterance, 1).samples)
    assert len({in_a_room(utterance, seed).audible_end % 512 for seed in range(3)}) == 3


def test_a_silent_utterance_is_refused() -> None:
    with pytest.raises(ValueError, match="hum is silent"):
        in_a_room(Utterance(group="turns", name="hum", samples=np.zeros(HZ, np.int16), room_dbfs=-60.0), 0)


def test_sentences_are_the_same_each_time_and_have_different_rooms() -> None:
    first, second = spoken("s", SENTENCES[1:3])
    again, _ = spoken("s", SENTENCES[1:3])
    assert np.array_equal(first.samples, again.samples)
    assert (first.name, first.group) == (SENTENCES[1], "s")
    assert (first.room_dbfs, second.room_dbfs) == (-60.0, -52.0)


@pytest.mark.parametrize(
    ("sound_alone_ms", "words_ms", "bar", "holds"),
    [
        ([300.0] * 10, [300.0] * 10, 0.0, True),
        ([300.0] * 10, [300.0] * 9 + [-1.0], 0.0, False),
        ([300.0] * 9 + [-1.0], [300.0] * 9 + [-1.0], 5.0, False),
        ([300.0] * 9 + [-1.0], [300.0] * 19 + [-1.0], 5.0, True),
        ([300.0] * 10, [], 0.0, False),
        ([], [300.0] * 10, 5.0, True),
    ],
)
def test_words_may_cut_one_in_twenty_and_no_more_than_sound_alone(
    sound_alone_ms: list[float], words_ms: list[float], bar: float, holds: bool
) -> None:
    trials = [trial(SOUND_ALONE, ms) for ms in sound_alone_ms] + [trial(FIRST, ms) for ms in words_ms]
    row = found(*trials)[f"turns: ended inside, {FIRST}"]
    assert (row.bar, row.holds) == (bar, holds)


@pytest.mark.parametrize(("silence_ms", "holds"), [(350.0, True), (350.1, False), (None, False)])
def test_the_silence_before_a_turns_end_has_a_bar(silence_ms: float | None, holds: bool) -> None:
    row = found(trial(AFTER_HISTORY, silence_ms))[f"turns: silence p50, {AFTER_HISTORY}"]
    assert row.holds is holds


def test_a_cut_turn_has_no_silence_and_only_whole_utterances_have_bars() -> None:
    figures = found(trial(FIRST, -200.0), trial(FIRST, 300.0), trial(FIRST, 320.0), trial(FIRST, 900.0))
    assert figures[f"turns: silence p50, {FIRST}"].value == 320
    assert figures[f"turns: silence p90, {FIRST}"].value == 900
    assert figures[f"turns: pauses per turn, {FIRST}"].value == 2
    assert figures[f"turns: ended inside, {FIRST}"].value == 25
    assert len(figures) == len(ALL_GROUPS) * len(WAYS) * 4
    bars = {name for name, row in figures.items() if row.bar is not None}
    words = (FIRST, AFTER_HISTORY)
    assert bars == {f"{group}: ended inside, {way}" for group in ("sentences", "turns") for way in words} | {
        f"turns: silence p50, {way}" for way in words
    }


def test_what_went_wrong_is_told_by_utterance() -> None:
    told = failures(
        [
            trial(FIRST, -200.0),
            trial(FIRST, -300.4),
            trial(FIRST, 300.0),
            trial(FIRST, None),
            trial(SOUND_ALONE, -200.0),
            trial(FIRST, -200.0, group="hesitations"),
            trial(SOUND_ALONE, None, group="hesitations"),
        ]
    )
    assert told == [
        f"turns, {FIRST}: a.wav was cut in 2 of 4 takes, up to 300 ms before its last sound",
        f"turns, {FIRST}: a.wav did not end in 1 of 4 takes",
        f"hesitations, {SOUND_ALONE}: a.wav did not end in 1 of 1 takes",
    ]


@pytest.mark.parametrize("seeds", ["0", "-1", "many"])
def test_a_number_of_takes_that_is_none_is_refused(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["endpoint", f"--seeds={seeds}"])
    assert f"'{seeds}' is no number of takes: give 1 or more" in capsys.readouterr().err


@pytest.mark.models
def test_real_models_follow_a_clip_to_its_end_and_say_the_same_twice(model_path: ModelPath) -> None:
    from latency_bench.micro.models import Models

    take = in_a_room(clip("capital.wav"), 0)
    system = (Message(role="system", text=INSTRUCTIONS),)

    def silences_ms() -> list[float]:
        with closing(Models(path=model_path, compute=ComputeConfig(), judges=2)) as models:
            judges = (None, models.judge(system, first=True), models.judge((*system, *HISTORY), first=False))
            hearing = models.hear(take.samples)
            ends = [follow(hearing, policy=DetectorPolicy(), hz=HZ, delay_ms=80, judge=judge).ended for judge in judges]
            assert judges[1] is not None
            whole, half = judges[1]("What is the capital of France?"), judges[1]("What is the capital of")
            assert half.probability < 0.1 < whole.probability
        return [1000 * (end - take.audible_end) / HZ for end in ends if end is not None]

    first = silences_ms()
    assert len(first) == 3
    assert all(200 <= ms <= 900 for ms in first)
    assert silences_ms() == first
