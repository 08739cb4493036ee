"""What a soak found, judged."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from latency_bench.table import Report
from latency_bench.wire.chaos.ear import Heard
from latency_bench.wire.chaos.verdict import Soaked, State, left, rows
from latency_bench.wire.server import Holdings, Watch


def state(*, files: int = 15, threads: int = 18, tasks: int = 5, held: Mapping[str, float] | None = None) -> State:
    return State(holdings=Holdings(files=files, threads=threads), tasks=tasks, rss_mb=700.0, held=held or {})


def soaked(
    after: State | None, *, heard: Heard | None = None, code: int | None = 0, ledger: tuple[str, ...] = ()
) -> Report:
    found = Soaked(heard=heard or Heard(), watch=Watch(code=code), before=state(), after=after, ledger=list(ledger))
    return Report(benchmark="soak", date="d", machine={}, settings={}, rows=rows(found))


def test_a_server_as_it_was_holds() -> None:
    assert soaked(state()).holds
    assert soaked(state(files=14, threads=17, tasks=4)).holds


@pytest.mark.parametrize(
    "after",
    [
        state(files=16),
        state(threads=19),
        state(tasks=6),
        state(held={"duplex_sessions": 1.0}),
        state(held={'duplex_stage_requests{stage="hear"}': 1.0}),
        state(held={"duplex_connector_bytes": 960.0}),
        None,
    ],
)
def test_whatever_is_left_fails(after: State | None) -> None:
    assert not soaked(after).holds


@pytest.mark.parametrize("heard", [Heard(stale_bytes=2), Heard(breaches=["c: number 3 after 1"])])
def test_whatever_was_broken_fails(heard: Heard) -> None:
    assert not soaked(state(), heard=heard).holds


@pytest.mark.parametrize("code", [1, -9, None])
def test_an_end_out_of_order_fails(code: int | None) -> None:
    assert not soaked(state(), code=code).holds


def test_a_ledger_that_is_wrong_fails() -> None:
    assert not soaked(state(), ledger=("kv of s: 12 tokens, and 13 are held",)).holds


def test_what_is_left_is_named() -> None:
    before = state()
    assert left(state(tasks=7, held={"duplex_requests": 2.0, "duplex_sessions": 0.0}), before) == {
        "duplex_requests": 2.0,
        "tasks": 2.0,
    }
    assert left(state(tasks=7), None) == {}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2026-11-30 16:00:00,000 ERROR duplex.session.runner: session s failed", True),
        ("Traceback (most recent call last):", True),
        ("2026-11-30 16:00:00,000 INFO duplex.server: stopping", False),
        ("2026-11-30 16:00:00,000 WARNING duplex.engine.pooled: hear: a worker failed", False),
        ("ready: http://127.0.0.1:1/", False),
    ],
)
def test_a_fault_in_the_log_is_noticed(line: str, fault: bool) -> None:
    watch = Watch()
    watch.line(line)
    assert bool(watch.faults) is fault
