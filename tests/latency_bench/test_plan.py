"""What clients do is drawn from the seed alone, and covers everything."""

from __future__ import annotations

from itertools import islice

from latency_bench.wire.chaos.plan import LAST, WRITTEN, Deed, Dialect, Moment, VisitPlan, visits


def some(seed: int, client: int, number: int = 400) -> list[VisitPlan]:
    return list(islice(visits(seed, client), number))


def test_the_same_seed_is_the_same_plan_and_another_is_not() -> None:
    assert some(7, 3) == some(7, 3)
    assert some(7, 3) != some(8, 3)
    assert some(7, 3) != some(7, 4)


def test_every_deed_is_done_at_every_moment_in_both_dialects() -> None:
    turns = [(visit.dialect, turn) for client in range(20) for visit in some(1, client) for turn in visit.turns]
    native = {(turn.deed, turn.moment) for dialect, turn in turns if dialect is Dialect.NATIVE}
    assert native == {(deed, moment) for deed in Deed for moment in Moment}
    realtime = {turn.deed for dialect, turn in turns if dialect is Dialect.REALTIME}
    assert realtime == set(Deed) - {Deed.RESUME, Deed.FORGE, Deed.REPLACE}


def test_a_turn_in_writing_waits_for_nothing_that_only_speech_brings() -> None:
    turns = [turn for visit in some(2, 0) for turn in visit.turns]
    assert {turn.moment for turn in turns if not turn.spoken} == set(WRITTEN)
    assert all(0 <= turn.delay_s <= 1 for turn in turns)


def test_after_a_goodbye_nothing_is_planned() -> None:
    for visit in some(3, 0):
        assert 1 <= len(visit.turns) <= 4
        assert not any(turn.deed in LAST for turn in visit.turns[:-1])
