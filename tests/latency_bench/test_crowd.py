"""Positions told and not told, and a crowd against the same sessions alone."""

from __future__ import annotations

import pytest

from duplex.client.turn import Turn
from latency_bench.wire.crowd import Crowd, Visit, Window, by_clip_ms, crowd_rows, untold
from latency_bench.wire.turns import Spoken


def visit(
    came_s: float, told: list[tuple[float, int]], in_s: float | None = None, gone_s: float | None = None
) -> Visit:
    return Visit(came_s=came_s, told=told, in_s=in_s, gone_s=gone_s)


def spoken(clip: str, ms: float) -> Spoken:
    return Spoken(clip=clip, text="", turn=Turn(speech_end_s=1.0, first_audible_s=1.0 + ms / 1000))


def test_everybody_told_at_each_change_is_nothing_to_report() -> None:
    inside = visit(0.0, [], in_s=0.01, gone_s=10.0)
    first = visit(1.0, [(1.1, 1)], in_s=10.1, gone_s=20.0)
    second = visit(1.2, [(1.3, 2), (10.4, 1)], gone_s=30.0)
    assert untold([inside, first, second]) == []


@pytest.mark.parametrize(
    ("told", "because"),
    [
        ([], "never told"),
        ([(3.5, 1)], "told 2.5 s after it came"),
        ([(1.1, 2)], "a number that is not its own"),
    ],
)
def test_who_waits_without_the_true_number_is_reported(told: list[tuple[float, int]], because: str) -> None:
    assert untold([visit(1.0, told, gone_s=9.0)]), because


def test_a_number_that_is_not_told_again_after_a_change_is_reported() -> None:
    first = visit(1.0, [(1.1, 1)], in_s=5.0, gone_s=9.0)
    second = visit(1.2, [(1.3, 2)], gone_s=9.0)
    found = untold([first, second])
    assert len(found) == 1
    assert "[2]" in found[0]


def test_changes_that_follow_each_other_at_once_are_given_time() -> None:
    first = visit(1.0, [(1.1, 1)], gone_s=5.0)
    second = visit(1.2, [(1.3, 2), (5.9, 1)], in_s=5.95, gone_s=9.0)
    assert untold([first, second]) == []


def test_sessions_at_one_time_are_weighted_by_their_time() -> None:
    window = Window(
        clients=3,
        visits=[visit(0, [], in_s=0.0, gone_s=10.0), visit(0, [], in_s=5.0, gone_s=10.0), visit(0, [], gone_s=10.0)],
    )
    assert window.inside == pytest.approx(1.5)
    assert Window(clients=1).inside == 0


def test_the_crowd_is_compared_on_the_clips_that_both_have_spoken() -> None:
    crowded, alone = visit(0, [(0.2, 1)], in_s=1.0, gone_s=9.0), visit(0, [], in_s=1.0, gone_s=9.0)
    crowded.spoken = [spoken("a", 440), spoken("b", 550), spoken("c", 9000)]
    alone.spoken = [spoken("a", 400), spoken("b", 500), spoken("b", 520), spoken("b", 500)]
    found = Crowd(places=1, crowded=[Window(clients=3, visits=[crowded])], alone=[Window(clients=1, visits=[alone])])
    assert by_clip_ms(found.alone) == pytest.approx({"a": 400, "b": 500})
    rows = {row.figure: row for row in crowd_rows(found)}
    assert rows["voice to voice in a crowd / alone"].value == pytest.approx(1.1)
    assert rows["first position told, the last of all"].value == pytest.approx(200)
    assert rows["times that a position was not true"].holds


def test_a_crowd_that_never_was_holds_nothing() -> None:
    assert not any(row.holds for row in crowd_rows(Crowd()))
