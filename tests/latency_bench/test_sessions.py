"""The figures of `sessions` out of what was measured."""

from __future__ import annotations

from collections import Counter

import pytest

from duplex.client.turn import Turn
from latency_bench.clips import load
from latency_bench.table import Row
from latency_bench.wire.history import history_rows
from latency_bench.wire.opening import Resumption, opening_rows, resumption_rows
from latency_bench.wire.provisional import Side, by_length, conversation_rows, cut_rows, waste_rows
from latency_bench.wire.server import Server
from latency_bench.wire.sessions import ROWS, Found, rows
from latency_bench.wire.turns import Spoken
from latency_bench.wire.typed import Reply
from latency_bench.wire.upkeep import Attached, Microphones, attached_rows, microphone_rows

SERVER = Server(url="ws://127.0.0.1:1/v1/realtime", pid=None, start_s=None)


def spoken(ms: float = 300.0, *, clip: str = "egg.wav", cut: bool = False) -> Spoken:
    turn = Turn(speech_end_s=1.0, first_audible_s=1.0 + ms / 1000)
    return Spoken(clip=clip, text="", cut=cut, failure="cut" if cut else "", turn=turn)


def by_name(told: list[Row]) -> dict[str, Row]:
    return {row.figure: row for row in told}


def side(*ms: float, words: list[tuple[int, int]] | None = None) -> Side:
    return Side(server=SERVER, turns=[spoken(one) for one in ms], words=words if words is not None else [(1, 20)])


def test_voice_to_voice_is_judged_alone_and_against_the_same_without() -> None:
    told = by_name(conversation_rows(side(300, 320, 340), side(600, 620, 640)))
    assert told["voice to voice p50"].value == pytest.approx(320)
    assert told["voice to voice p50"].holds
    assert told["with / without"].value == pytest.approx(320 / 620)
    assert told["with / without"].holds
    assert told["word errors of what was said aloud"].holds
    assert not by_name(conversation_rows(side(360), side(900)))["voice to voice p50"].holds
    assert not by_name(conversation_rows(side(340), side(500)))["with / without"].holds


@pytest.mark.parametrize("words", [[], [(3, 20)]])
def test_answers_that_are_not_understood_or_were_not_listened_to_fail(words: list[tuple[int, int]]) -> None:
    told = by_name(conversation_rows(side(300, words=words), side(900)))
    assert not told["word errors of what was said aloud"].holds


def test_cuts_may_not_be_more_than_without() -> None:
    on, off = side(300), side(600)
    files = [clip.file for clip in load("hesitations")[:4]]
    on.pauses = [spoken(clip=file, cut=number < 2) for number, file in enumerate(files)]
    off.pauses = [spoken(clip=file, cut=number < 2) for number, file in enumerate(files)]
    told = by_name(cut_rows(on, off))
    assert told["turns ended inside a sentence"].holds
    assert told["pauses taken for the end"].value == 50.0
    off.pauses[0].cut = False
    assert not by_name(cut_rows(on, off))["turns ended inside a sentence"].holds


def test_cuts_are_told_by_the_length_of_the_pause() -> None:
    lengths = {clip.pauses[0].length_ms: clip.file for clip in load("hesitations")}
    short = next(clip.file for clip in load("inner_pauses") if clip.pauses[0].length_ms < 400)
    told = by_length([spoken(clip=short), spoken(clip=lengths[800], cut=True), spoken(clip=lengths[500])])
    assert told == "under 400 ms 0 of 1, 500 ms 0 of 1, 800 ms 1 of 1"


def test_waste_is_counted_and_weighed() -> None:
    on, off = side(300, 300), side(600, 600)
    on.counted = Counter(provisional_turns=4, provisional_turns_confirmed=3)
    on.used_s, off.used_s = Counter(think=1.5, listen=9.0), Counter(think=1.2, listen=1.0)
    told = by_name(waste_rows(on, off))
    assert told["answers begun in vain"].value == 25.0
    assert told["work done in vain"].value == pytest.approx(20.0)  # listening is no part of an answer


def test_a_resumption_is_counted_beyond_a_plain_connection() -> None:
    trials = [Resumption(plain_ms=2.0, resumed_ms=9.0, again_ms=10.0 + number) for number in range(3)]
    told = by_name(resumption_rows([*trials, Resumption(failure="lost")]))
    assert told["resume p50"].value == pytest.approx(9.0)
    assert told["resume p99"].value == pytest.approx(10.0)
    assert "3 of 4" in told["resume p99"].note
    assert not by_name(resumption_rows([Resumption(failure="lost")]))["resume p50"].holds


def test_opening_is_judged_by_its_median() -> None:
    told = by_name(opening_rows([1.0, 2.0, 90.0]))
    assert told["open to first event p50"].holds
    assert told["open to first event p99"].holds is None


def test_a_late_turn_is_held_against_the_second() -> None:
    replies = [Reply(first_ms=200.0), Reply(first_ms=50.0), Reply(first_ms=90.0, input_tokens=1000, cached_tokens=960)]
    told = by_name(history_rows(replies))
    assert told["first word at the last turn / at turn 2"].value == pytest.approx(1.8)
    assert told["prompt read again at the last turn"].value == pytest.approx(4.0)
    assert not any(row.holds for row in history_rows([]))


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (Attached(wanted=200, sessions=200, percent=19.0, kilobytes=150.0), [True, True, True]),
        (Attached(wanted=200, sessions=199, percent=21.0, kilobytes=201.0), [False, False, False]),
        (Attached(wanted=200, sessions=0, percent=None, kilobytes=None), [False, False, False]),
    ],
)
def test_attached_sessions_are_counted_and_weighed(found: Attached, holds: list[bool]) -> None:
    assert [row.holds for row in attached_rows(found)] == holds


def test_microphones_are_only_reported() -> None:
    told = microphone_rows(Microphones(nobody=0.1, zeros=6.0, room=7.0))
    assert [row.value for row in told] == [0.1, 6.0, 7.0]
    assert [row.holds for row in told] == [None, None, None]


def test_what_could_not_be_measured_fails_and_takes_nothing_with_it() -> None:
    found = Found(opens_ms=[1.0], lost=["crowd: the server did not stop"])
    told = by_name(rows(found, ROWS))
    assert told["open to first event p50"].holds
    assert told["groups without figures"].holds is False
