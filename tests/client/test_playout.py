"""What a listener would have heard."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.client.playout import Dropped, Playout


def ones(n: int, value: int = 1) -> np.ndarray:
    return np.full(n, value, np.int16)


def test_packets_that_come_early_wait_and_those_that_come_late_leave_a_gap() -> None:
    playout = Playout(rate_hz=1000)
    assert playout.put("a", ones(100), 1.0) == 1.0
    assert playout.put("a", ones(100, 2), 1.01) == pytest.approx(1.1)
    assert playout.put("a", ones(50, 3), 1.5) == 1.5
    heard = playout.render(0.5)
    assert len(heard) == 1050
    assert [heard[at] for at in (499, 500, 599, 600, 699, 700, 999, 1000, 1049)] == [0, 1, 1, 2, 2, 0, 0, 3, 3]


def test_a_flush_keeps_what_was_heard_and_nothing_else() -> None:
    playout = Playout(rate_hz=1000)
    playout.put("a", ones(100), 0.0)
    playout.put("a", ones(400, 2), 0.0)
    assert playout.flush(0.25) == Dropped(item_id="a", played=250, played_ms=250)
    assert playout.end_s == pytest.approx(0.25)
    assert playout.render(0.0).tolist() == [1] * 100 + [2] * 150
    assert playout.put("b", ones(10), 0.3) == 0.3


def test_played_counts_one_answer_and_not_the_one_before() -> None:
    playout = Playout(rate_hz=1000)
    playout.put("a", ones(100), 0.0)
    playout.put("b", ones(100), 1.0)
    assert playout.flush(1.02) == Dropped(item_id="b", played=20, played_ms=20)


def test_nothing_left_to_play_is_no_interruption() -> None:
    playout = Playout(rate_hz=1000)
    assert playout.flush(0.0) is None
    playout.put("a", ones(100), 0.0)
    assert playout.flush(0.1) is None
    assert len(playout.render(0.0)) == 100


def test_an_answer_that_has_arrived_but_not_begun_was_heard_for_0_ms() -> None:
    playout = Playout(rate_hz=1000)
    playout.put("a", ones(100), 5.0)
    assert playout.flush(5.0) == Dropped(item_id="a", played=0, played_ms=0)
    assert len(playout.render(0.0)) == 0
