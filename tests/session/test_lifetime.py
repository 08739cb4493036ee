"""Limits are announced before they bite."""

from __future__ import annotations

import pytest

from duplex.session.events import ClearAudio
from duplex.session.lifetime import Ended, Lifetime, Warned
from duplex.session.notices import Closed, Ending
from tests.session.driver import LIMITS, Driver


def life(*, idle_s: float = 100, lifetime_s: float = 1000, notice_s: float = 10) -> Lifetime:
    return Lifetime(idle_s=idle_s, lifetime_s=lifetime_s, notice_s=notice_s, now=0.0)


def test_idleness_is_announced_once_and_then_bites() -> None:
    one = life()
    assert one.deadline == 90
    assert one.wake(89.9) == []
    assert one.wake(90.0) == [Warned(reason="idle", in_s=10.0)]
    assert one.wake(95.0) == []
    assert one.deadline == 100
    assert one.wake(100.0) == [Ended(reason="idle")]


def test_whoever_does_something_is_warned_anew() -> None:
    one = life()
    one.wake(90.0)
    one.touch(95.0)
    assert one.deadline == 185
    assert one.wake(100.0) == []
    assert one.wake(185.0) == [Warned(reason="idle", in_s=10.0)]


def test_a_life_ends_whatever_is_done() -> None:
    one = life()
    for second in range(0, 1000, 50):
        one.touch(float(second))
    assert one.wake(990.0) == [Warned(reason="expired", in_s=10.0)]
    one.touch(990.0)
    assert one.deadline == 1000
    assert one.wake(1000.0) == [Ended(reason="expired")]


@pytest.mark.parametrize(("idle_s", "at"), [(10, 5), (1, 0.5)])
def test_a_short_limit_is_announced_at_its_half(idle_s: float, at: float) -> None:
    one = life(idle_s=idle_s, notice_s=30)
    assert one.deadline == at
    assert one.wake(at) == [Warned(reason="idle", in_s=idle_s - at)]


def test_a_client_is_told_in_time() -> None:
    driver = Driver()
    driver.pass_time(LIMITS.idle_s - LIMITS.notice_s)
    assert driver.told(Ending) == [Ending(reason="idle", in_s=LIMITS.notice_s)]
    driver.do(ClearAudio())
    driver.pass_time(LIMITS.idle_s - 1)
    assert len(driver.told(Ending)) == 2
    assert not driver.told(Closed)
    driver.pass_time(1)
    assert driver.told(Closed)[0].reason == "idle"
