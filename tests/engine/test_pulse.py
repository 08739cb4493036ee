"""When a process is dead, and when it was whoever listens that stood still."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duplex.engine.pulse import LATE, Pulse


def test_it_is_dead_when_it_was_silent_for_so_long() -> None:
    pulse = Pulse(silence_s=2.0, now=10.0)
    assert pulse.deadline == 12.0
    assert not pulse.is_over(11.9)
    pulse.beat(11.9)
    assert not pulse.is_over(12.1)
    assert pulse.deadline == 13.9
    assert pulse.is_over(13.9)


def test_who_is_late_himself_forgives_once() -> None:
    pulse = Pulse(silence_s=2.0, now=0.0)
    assert not pulse.is_over(100.0)
    assert pulse.deadline == 102.0
    assert pulse.is_over(200.0)


def test_a_word_earns_another_pardon() -> None:
    pulse = Pulse(silence_s=2.0, now=0.0)
    assert not pulse.is_over(100.0)
    pulse.beat(101.0)
    assert not pulse.is_over(200.0)
    assert pulse.is_over(202.0)


@given(st.floats(0.1, 10), st.lists(st.floats(0.01, 0.99), max_size=20), st.floats(0, 0.99))
def test_who_speaks_in_time_lives_and_who_does_not_dies_soon(
    silence_s: float, pauses: list[float], late: float
) -> None:
    now = 0.0
    pulse = Pulse(silence_s=silence_s, now=now)
    for pause in pauses:
        now += pause * silence_s
        assert not pulse.is_over(now)
        pulse.beat(now)
    assert pulse.is_over(pulse.deadline + late * LATE * silence_s)
