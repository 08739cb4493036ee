"""The pool: order of urgency, refusal when full, no thread left behind. Events order the threads, nothing sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from duplex.engine.pool import URGENT, WorkerPool
from duplex.errors import PoolFull, StateError

WAIT_S = 10


class Gate:
    """A job that occupies its thread until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.opened.wait(WAIT_S)


Occupy = Callable[[WorkerPool], Gate]


@pytest.fixture
def occupy() -> Iterator[Occupy]:
    """Takes one thread of a pool away until its gate, or the test's end, sets it free."""
    gates: list[Gate] = []

    def take(pool: WorkerPool) -> Gate:
        gate = Gate()
        gates.append(gate)
        pool.submit(1, gate)
        assert gate.entered.wait(WAIT_S)
        return gate

    yield take
    for gate in gates:
        gate.opened.set()


def test_runs_the_most_urgent_first_and_the_oldest_first_within_one_priority(occupy: Occupy) -> None:
    pool = WorkerPool(threads=1, name="order", capacity=16)
    gate = occupy(pool)
    ran: list[str] = []
    for priority, name in [(2, "c"), (1, "b1"), (0, "a1"), (1, "b2"), (0, "a2"), (2, "d")]:
        pool.submit(priority, lambda name=name: ran.append(name))  # type: ignore[misc]
    gate.opened.set()
    pool.close()
    assert ran == ["a1", "a2", "b1", "b2", "c", "d"]


def test_refuses_a_job_when_full_and_keeps_those_it_has(occupy: Occupy) -> None:
    pool = WorkerPool(threads=1, name="full", capacity=2)
    gate = occupy(pool)
    ran: list[int] = []
    pool.submit(1, lambda: ran.append(0))
    pool.submit(1, lambda: ran.append(1))
    assert pool.waiting == 2
    with pytest.raises(PoolFull, match="2 jobs are waiting already"):
        pool.submit(0, lambda: ran.append(2))
    gate.opened.set()
    pool.close()
    assert ran == [0, 1]


def test_close_runs_what_waits_joins_every_thread_and_refuses_more() -> None:
    pool = WorkerPool(threads=3, name="closing", capacity=64, reserved=1)
    ran: list[int] = []
    for number in range(50):
        pool.submit(number % 2, lambda number=number: ran.append(number))  # type: ignore[misc]
    pool.close()
    assert sorted(ran) == list(range(50))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("closing-")]
    with pytest.raises(StateError, match="closed"):
        pool.submit(0, lambda: None)


def test_a_reserved_thread_runs_urgent_jobs_while_all_others_are_busy(occupy: Occupy) -> None:
    pool = WorkerPool(threads=2, name="reserved", capacity=8, reserved=1)
    gates = [occupy(pool), occupy(pool)]
    ordinary, urgent = threading.Event(), threading.Event()
    pool.submit(1, ordinary.set)
    pool.submit(URGENT, urgent.set)
    assert urgent.wait(WAIT_S)
    assert not ordinary.is_set()
    assert pool.waiting == 1
    for gate in gates:
        gate.opened.set()
    pool.close()
    assert ordinary.is_set()


def test_a_job_that_raises_is_reported_and_its_thread_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reports.append(args.exc_value))
    pool = WorkerPool(threads=1, name="bug", capacity=8)
    done = threading.Event()

    def bug() -> None:
        raise ZeroDivisionError

    pool.submit(0, bug)
    pool.submit(0, done.set)
    assert done.wait(WAIT_S)
    pool.close()
    assert [type(report) for report in reports] == [ZeroDivisionError]


@pytest.mark.parametrize("sizes", [{"threads": 0, "capacity": 1}, {"threads": 1, "capacity": 0}])
def test_refuses_sizes_that_cannot_work(sizes: dict[str, int]) -> None:
    with pytest.raises(StateError):
        WorkerPool(name="bad", **sizes)


def test_refuses_a_priority_below_urgent() -> None:
    pool = WorkerPool(threads=1, name="priority", capacity=1)
    with pytest.raises(StateError, match="priority"):
        pool.submit(URGENT - 1, lambda: None)
    pool.close()
