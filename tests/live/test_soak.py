"""Half a minute of chaos, as `python -m latency_bench soak` makes hours of it."""

from __future__ import annotations

import asyncio

import pytest

from latency_bench.wire.soak import soak

pytestmark = [pytest.mark.models, pytest.mark.live]


@pytest.mark.timeout(150)
def test_no_promise_is_broken_and_nothing_is_left_behind() -> None:
    report = asyncio.run(soak(minutes=0.5, seed=3, clients=8))
    figures = {row.figure: row.value or 0 for row in report.rows}
    assert figures["turns"] >= 5, report.as_text()
    assert figures["audio heard"] > 0, report.as_text()
    assert report.holds, report.as_text()
