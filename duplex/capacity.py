"""What a server can hold: its graph's declarations and its configuration, as the words of admission."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from duplex.config import ServerConfig
from duplex.engine.base import Lane
from duplex.orchestrator.graph import StageGraph
from duplex.session.budget import Budget
from duplex.session.holdings import HOST_MEMORY
from duplex.session.price import Price

CONTROL = "control"
CONTROL_LOAD = 0.05
"""Seconds of the event loop per second of a session that talks: sockets, base64, resampling, the session itself."""

_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def cores() -> float:
    """Cores that this process may use: those it is bound to, or its container's share of them (cgroup v2)."""
    bound = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = _CPU_MAX.read_text(encoding="ascii").split()
        return min(bound, int(quota) / int(period))
    except (OSError, ValueError):  # no such file, or "max": no quota
        return bound


def declared(graph: StageGraph, *, ring_bytes: int) -> Price:
    """A session's price before anything is known of sessions.

    Args:
        graph: declares what its stages take.
        ring_bytes: of input audio that each session keeps.
    """
    stages = graph.stages.values()
    return Price(
        nbytes={HOST_MEMORY: ring_bytes + sum(stage.state_bytes for stage in stages)},
        compute={CONTROL: CONTROL_LOAD} | {stage.name: stage.load for stage in stages},
    )


def budget(config: ServerConfig, *, lanes: Mapping[str, Lane], widths: Mapping[str, float]) -> Budget:
    """What all sessions together may take.

    Args:
        config: of these the limits and the compute.
        lanes: what the engines share among themselves.
        widths: by engine: cores that it keeps busy while it works.
    """
    most = config.compute.cores if config.compute.cores is not None else cores()
    return Budget(
        sessions=config.limits.max_sessions,
        nbytes={HOST_MEMORY: config.compute.state_budget_bytes},
        lanes={
            **lanes,
            CONTROL: Lane(most=1.0, weights={CONTROL: 1.0}),
            "cores": Lane(most=most, weights={CONTROL: 1.0, **widths}),
        },
        headroom=config.compute.headroom,
    )


def refusal(budget: Budget, price: Price) -> str | None:
    """Why there will never be a place, so that a server can say it before it loads its models; None if there will."""
    if budget.lacks(Price(), price, held=0) is None:
        return None
    return (
        f"compute.state_budget_bytes is {budget.nbytes[HOST_MEMORY]}, and one session takes "
        f"{price.nbytes[HOST_MEMORY]}: give as much at least, or a shorter limits.max_turn_s"
    )
