"""Performs the orchestrator's effects on real engines and connectors."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Mapping

from duplex.connector.base import Connector, Handle
from duplex.engine.base import Engine, StageEvent, StageFinished, StageOptions, StageOutput
from duplex.errors import ConnectorError, GraphError
from duplex.orchestrator.core import (
    Abort,
    AbortStage,
    Admit,
    Deliver,
    Discard,
    Effect,
    Event,
    Input,
    Orchestrator,
    RequestCompleted,
    RequestFailed,
    ShareHandle,
    SubmitStage,
    UpdateStage,
)
from duplex.orchestrator.replicas import ReplicatedEngine
from duplex.orchestrator.trace import TraceLog
from duplex.session.fence import Fence

Report = Deliver | RequestCompleted | RequestFailed
Receiver = Callable[[Report], None]
"""Told of every final output of a request and, last, of its end; called on the event loop."""


class OrchestratorRunner:
    """One orchestrator with its engines, on one event loop. Every method is called on that loop.

    Args:
        core: decides.
        engines: one per stage of its graph.
        connector: carries the payloads.
        clock: seconds, monotonic; the loop's own.
        trace: where the moments of each stage are written.
    """

    def __init__(
        self,
        *,
        core: Orchestrator,
        engines: Mapping[str, Engine],
        connector: Connector,
        clock: Callable[[], float],
        trace: TraceLog,
    ) -> None:
        missing = core.graph.stages.keys() - engines.keys()
        if missing:
            raise GraphError(f"no engine serves the stages {', '.join(sorted(missing))}")
        self.core = core
        self.trace = trace
        self._engines = dict(engines)
        self._keepers = {
            name for name, engine in engines.items() if isinstance(engine, ReplicatedEngine) and engine.pure
        }
        self._connector = connector
        self._clock = clock
        self._receivers: dict[Fence, Receiver] = {}
        self._pending: deque[Effect] = deque()
        self._performing = False

    async def start(self) -> None:
        """Start every engine in turn. Raises StageError where one cannot start; those started are stopped."""
        loop = asyncio.get_running_loop()

        def sink(event: StageEvent) -> None:
            loop.call_soon_threadsafe(self._happened, event)

        started: list[Engine] = []
        try:
            for engine in self._engines.values():
                await engine.start(sink)
                started.append(engine)
        except BaseException:
            for engine in reversed(started):
                await engine.stop()
            raise

    async def stop(self) -> None:
        """Stop every engine; requests still alive are aborted without a word."""
        self._receivers.clear()
        for engine in reversed(self._engines.values()):
            await engine.stop()

    def admit(
        self, fence: Fence, stages: tuple[str, ...], receiver: Receiver, options: StageOptions | None = None
    ) -> None:
        """Open a request; what becomes of it is told to `receiver`."""
        self._receivers[fence] = receiver
        self._happened(Admit(fence=fence, stages=stages, options=options or StageOptions()))

    def update(self, fence: Fence, stage: str, handle: Handle | None, *, last: bool) -> None:
        """More input for a stage; late input is dropped and counted."""
        self._happened(Input(fence=fence, stage=stage, handle=handle, last=last))

    def abort(self, fence: Fence) -> None:
        """Stop a request; its receiver hears nothing more."""
        self._receivers.pop(fence, None)
        self._happened(Abort(fence=fence))

    def _happened(self, event: Event) -> None:
        match event:
            case StageOutput(fence=fence, stage=stage):
                self.trace.gave(fence, stage, self._clock())
            case StageFinished(fence=fence, stage=stage):
                self.trace.finished(fence, stage, self._clock())
            case _:
                pass
        self._pending.extend(self._with_keepers(self.core.receive(event)))
        if self._performing:  # A receiver has called back: whoever is performing goes on with the new effects.
            return
        self._performing = True
        try:
            while self._pending:
                self._perform(self._pending.popleft())
        finally:
            self._performing = False

    def _with_keepers(self, effects: list[Effect]) -> list[Effect]:
        """Let the pool of a pure stage read its input as well, so that another replica can have it later."""
        if not self._keepers:
            return effects
        given = (effect for effect in effects if isinstance(effect, UpdateStage) and effect.stage in self._keepers)
        keepers = Counter(effect.handle for effect in given if effect.handle is not None)
        shared = {effect.handle: effect.readers for effect in effects if isinstance(effect, ShareHandle)}
        rest = (effect for effect in effects if not (isinstance(effect, ShareHandle) and effect.handle in keepers))
        shares = (ShareHandle(handle=one, readers=shared.get(one, 1) + more) for one, more in keepers.items())
        return [*shares, *rest]

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SubmitStage(request=request):
                self.trace.submitted(request.fence, request.stage, self._clock())
                self._engines[request.stage].submit(request)
            case UpdateStage(fence=fence, stage=stage, handle=handle, last=last):
                if handle is not None:
                    self.trace.fed(fence, stage, self._clock())
                self._engines[stage].update(fence, handle, final=last)
            case AbortStage(fence=fence, stage=stage):
                self._engines[stage].abort(fence)
            case ShareHandle(handle=handle, readers=readers):
                self._connector.share(handle, readers)
            case Discard(handle=handle):
                with contextlib.suppress(ConnectorError):  # Dropped with its fence, or with the process it was in.
                    self._connector.take(handle)
            case Deliver(fence=fence):
                if (receiver := self._receivers.get(fence)) is not None:
                    receiver(effect)
            case RequestCompleted(fence=fence) | RequestFailed(fence=fence):
                if (receiver := self._receivers.pop(fence, None)) is not None:
                    receiver(effect)
