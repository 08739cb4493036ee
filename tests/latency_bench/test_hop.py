"""The way of a request to an engine process and back is measured with a real one."""

from __future__ import annotations

from latency_bench.micro.hop import HOP_US, rows


def test_the_hop_is_measured() -> None:
    there, worst, back = rows(hops=20)
    assert there.bar == HOP_US
    assert there.value is not None
    assert worst.value is not None
    assert back.value is not None
    assert 0 < there.value <= worst.value
    assert back.value > there.value
