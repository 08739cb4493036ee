"""What the tests of hosts share: a host with a recorder."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from duplex.connector.payload import Text
from duplex.engine.arenas import Arenas
from duplex.engine.base import StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.engine.host import EngineHost
from duplex.engine.life import HostSpec
from duplex.engine.remote import RemoteEngine
from duplex.errors import UnknownHandle
from duplex.session.fence import MAIN, Fence
from tests.engine.hosted_engines import FileConnector

HERE = "tests.engine.hosted_engines"
_epochs = itertools.count(1)


def spec(engines: str = "upper", **changes: Any) -> HostSpec:
    defaults: dict[str, Any] = {"arena_bytes": 1 << 20, "load_s": 20.0, "beat_s": 0.1, "silence_s": 20.0}
    return HostSpec(engines=f"{HERE}:{engines}", connector=f"{HERE}:FileConnector", **{**defaults, **changes})


class Bench:
    """A host, the server's connector, and everything that was said."""

    def __init__(
        self,
        spec: HostSpec,
        *,
        name: str = "upper",
        stages: tuple[str, ...] = ("upper",),
        beside: Bench | None = None,
    ) -> None:
        self.connector: FileConnector = beside.connector if beside is not None else FileConnector(0, 1 << 20)
        self.arenas: Arenas = beside.arenas if beside is not None else Arenas(self.connector)
        self.events: list[StageEvent] = []
        self.deaths: list[str] = []
        self._changed = asyncio.Event()
        self.host = EngineHost(
            name=name,
            stages=stages,
            spec=spec,
            arenas=self.arenas,
            clock=asyncio.get_running_loop().time,
            on_death=self._died,
        )

    @property
    def engine(self) -> RemoteEngine:
        return next(iter(self.host.engines.values()))

    @property
    def pid(self) -> int:
        assert self.host.pid is not None
        return self.host.pid

    def sink(self, event: StageEvent) -> None:
        self.events.append(event)
        self._changed.set()

    def _died(self, reason: str) -> None:
        self.deaths.append(reason)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def ask(self, *words: str, final: bool = True, engine: RemoteEngine | None = None, session: str = "s") -> Fence:
        engine = engine or self.engine
        fence = Fence(session, 0, MAIN, next(_epochs))
        engine.submit(StageRequest(fence=fence, stage=engine.stage))
        for word in words:
            engine.update(fence, self.connector.put(fence, Text(text=word, start=0)), final=False)
        if final:
            engine.update(fence, None, final=True)
        return fence

    def said(self, fence: Fence) -> list[str]:
        """Outputs of a request in order; its last word as ``.`` or ``!`` with the reason."""
        told = []
        for event in self.events:
            if event.fence == fence:
                match event:
                    case StageOutput(handle=handle):
                        try:
                            payload = self.connector.take(handle)
                            assert isinstance(payload, Text)
                            told.append(payload.text)
                        except UnknownHandle:
                            told.append("?")
                    case StageFinished():
                        told.append(".")
                    case StageFailed(error=error):
                        told.append(f"! {error}")
        return told

    def is_over(self, fence: Fence) -> bool:
        return any(event.fence == fence and not isinstance(event, StageOutput) for event in self.events)

    async def answer(self, *words: str, session: str = "s") -> list[str]:
        fence = self.ask(*words, session=session)
        await self.until(lambda: self.is_over(fence))
        return self.said(fence)


@asynccontextmanager
async def bench(engines: str = "upper", *, start: bool = True, **changes: Any) -> AsyncIterator[Bench]:
    made = Bench(spec(engines, **changes))
    try:
        if start:
            await made.engine.start(made.sink)
        yield made
    finally:
        await made.host.stop()
        made.connector.close()


def exists(pid: int) -> bool:
    """Whether there is such a process, a dead one that nobody has reaped included."""
    return os.path.exists(f"/proc/{pid}")
