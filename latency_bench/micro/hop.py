"""How long what the server asks of an engine takes to reach it in another process, and its answer to come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import uvloop

from duplex.connector.base import Handle
from duplex.connector.memory import MemoryConnector
from duplex.engine.arenas import ArenaConnector, Arenas
from duplex.engine.base import Engine, Sink, StageEvent, StageFinished, StageRequest
from duplex.engine.host import EngineHost
from duplex.engine.life import HostSpec
from duplex.errors import StageError
from duplex.session.fence import MAIN, Fence
from latency_bench.figures import percentile
from latency_bench.table import Row

HOP_US = 150.0
"""The bar: submit until the engine sees it, median."""

HOPS = 1000
WARM = 100
PAUSE_S = 0.002
"""Between two: both loops sleep then, as they do in a conversation; without a pause it would be quicker."""

_HERE = "latency_bench.micro.hop"
_MICRO = 1000
"""Nanoseconds."""


class NoArena(MemoryConnector):
    """A connector that carries nothing to other processes: nothing but control is measured here."""

    def __init__(self, number: int, arena_bytes: int) -> None:
        super().__init__(budget_bytes=arena_bytes)
        self.number = number
        self.arena_bytes = arena_bytes

    @property
    def fd(self) -> int:
        """Something that can be sent."""
        return 2

    def add_peer(self, number: int, fd: int, arena_bytes: int) -> None:
        """Nothing is read from it."""

    def drop_peer(self, number: int) -> None:
        """Nothing was."""

    def close(self) -> None:
        """Nothing is held."""


class Stamp:
    """Answers each request at once; the nanosecond at which it saw it takes the place of a count of tokens."""

    def __init__(self) -> None:
        self._sink: Sink | None = None

    async def start(self, sink: Sink) -> None:
        self._sink = sink

    async def stop(self) -> None:
        self._sink = None

    def submit(self, request: StageRequest) -> None:
        seen = time.perf_counter_ns()  # of one clock for all processes
        if self._sink is not None:
            self._sink(StageFinished(fence=request.fence, stage=request.stage, input_tokens=seen))

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        """There is none."""

    def abort(self, fence: Fence) -> None:
        """Everything is over at once."""


def stamps(connector: ArenaConnector, options: dict[str, Any]) -> Mapping[str, Engine]:
    """What runs in the process."""
    return {"stamp": Stamp()}


async def measure(hops: int = HOPS) -> tuple[list[float], list[float]]:
    """Microseconds from each submit until the engine saw it, and until its answer was here.

    Raises:
        StageError: the process cannot be started, or ends.
    """
    loop = asyncio.get_running_loop()
    host = EngineHost(
        name="stamp",
        stages=("stamp",),
        spec=HostSpec(engines=f"{_HERE}:stamps", connector=f"{_HERE}:NoArena", arena_bytes=1),
        arenas=Arenas(NoArena(0, 1)),
        clock=loop.time,
    )
    engine = host.engines["stamp"]
    there: list[float] = []
    back: list[float] = []
    said: asyncio.Queue[tuple[StageEvent, int]] = asyncio.Queue(maxsize=1)
    await engine.start(lambda event: said.put_nowait((event, time.perf_counter_ns())))
    try:
        for number in range(WARM + hops):
            await asyncio.sleep(PAUSE_S)
            fence = Fence("session", 0, MAIN, number)
            began = time.perf_counter_ns()
            engine.submit(StageRequest(fence=fence, stage="stamp"))
            event, came = await said.get()
            if not isinstance(event, StageFinished):
                raise StageError("the engine did not answer", stage="stamp")
            there.append((event.input_tokens - began) / _MICRO)
            back.append((came - began) / _MICRO)
    finally:
        await engine.stop()
    return there[WARM:], back[WARM:]


def rows(hops: int = HOPS) -> list[Row]:
    """The figures. Raises StageError."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        there, back = runner.run(measure(hops))
    note = f"{hops} times, {PAUSE_S * 1000:g} ms apart"
    seen = "control hop, submit until the engine sees it"
    return [
        Row(
            figure=f"{seen}, p50",
            value=median(there),
            unit="us",
            bar=HOP_US,
            note=note,
        ),
        Row(figure=f"{seen}, p99", value=percentile(there, 0.99), unit="us", note=note),
        Row(figure="control hop there and back, p50", value=median(back), unit="us", note=note),
    ]
