"""A shared engine's time: every second is somebody's, and only once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.engine.share import SharedTime


def test_who_is_alone_is_charged_all_of_it_and_two_share() -> None:
    time = SharedTime()
    time.begin("a", 10.0)
    assert time.spent("a", 11.0) == 1.0
    time.begin("b", 12.0)
    time.end("a", 14.0)
    time.end("b", 17.0)
    assert time.spent("a", 99.0) == pytest.approx(2.0 + 1.0)
    assert time.spent("b", 99.0) == pytest.approx(1.0 + 3.0)


def test_the_forgotten_are_charged_nothing_and_the_others_no_more() -> None:
    time = SharedTime()
    time.begin("a", 0.0)
    time.begin("b", 0.0)
    time.forget("a")
    time.end("a", 4.0)
    time.end("b", 4.0)
    assert time.spent("a", 5.0) == 0
    assert time.spent("b", 5.0) == pytest.approx(2.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 10)), max_size=40))
def test_all_charges_together_are_the_time_in_which_anyone_worked(steps: list[tuple[str, bool, float]]) -> None:
    time, now, busy, worked = SharedTime(), 0.0, [], 0.0
    for key, begins, after in steps:
        now += after
        worked += after if busy else 0.0
        if begins:
            time.begin(key, now)
            busy.append(key)
        elif key in busy:
            time.end(key, now)
            busy.remove(key)
    assert sum(time.spent(key, now) for key in "abc") == pytest.approx(worked)
