"""What the server sees of an engine that runs in another process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from duplex.connector.base import Connector, Handle
from duplex.engine.base import Sink, StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.engine.wire import Abort, Submit, ToProcess, Update
from duplex.errors import ConnectorError, ControlError, EngineDied, StageError, StateError
from duplex.session.fence import Fence


class Process(Protocol):
    """What an engine needs of the process that it runs in."""

    @property
    def running(self) -> bool:
        """Whether it takes messages."""

    def send(self, message: ToProcess) -> None:
        """Say something to it; never waits, and never calls back. Raises ControlError where it is too long."""


class RemoteEngine:
    """One stage in another process, as an `Engine`. Every method belongs to the event loop, and so do the sink's calls.

    It knows which requests live, and lets nothing else through: whatever the process still says about a request that
    is over is dropped, and what it has made for it is given back. So each request ends once, by its last word, by
    `abort`, or by the end of the process, whichever comes first.

    Args:
        stage: name of the stage in its graph.
        process: takes what is said to the engine.
        connector: where a payload that nobody wants is given back.
        on_start, on_stop: have the process run, and tell it that it need not for this engine.
    """

    def __init__(
        self,
        *,
        stage: str,
        process: Process,
        connector: Connector,
        on_start: Callable[[], Awaitable[None]],
        on_stop: Callable[[], Awaitable[None]],
    ) -> None:
        self.stage = stage
        self._on_death: Callable[[str], None] | None = None
        self._process = process
        self._connector = connector
        self._on_start = on_start
        self._on_stop = on_stop
        self._sink: Sink | None = None
        self._open: dict[Fence, bool] = {}
        """Requests that live, and whether more input may come."""
        self._spent: dict[str, float] = {}

    @property
    def started(self) -> bool:
        """Between `start` and `stop`, whatever becomes of the process."""
        return self._sink is not None

    @property
    def active(self) -> int:
        """Requests that live."""
        return len(self._open)

    def spent(self, session_id: str) -> float:
        """CPU seconds of the process's threads for a session, as it last told."""
        return self._spent.get(session_id, 0.0)

    def forget(self, session_id: str) -> None:
        """The session is over and will not be asked about again; `EngineHost.forget` tells the process."""
        self._spent.pop(session_id, None)

    async def start(self, sink: Sink) -> None:
        """Have the process run. Raises StageError, with the process's own reason, where it cannot."""
        self._sink = sink
        try:
            await self._on_start()
        except BaseException:
            self._sink = None
            raise

    async def stop(self) -> None:
        """Abort every request; the process ends with the last of its engines."""
        for fence in list(self._open):
            self.abort(fence)
        self._sink = None
        await self._on_stop()

    def watch(self, on_death: Callable[[str], None]) -> None:
        """Have `on_death` called with the reason, on the loop, whenever the process has ended by itself.

        It is called before the sink hears of the requests that died, in the same callback of the loop; those that are
        aborted meanwhile fail no more. An end that `stop` brought about is no death.
        """
        self._on_death = on_death

    async def restart(self) -> None:
        """Have the process run again after its death; does nothing where it runs. Raises StageError, StateError."""
        if self._sink is None:
            raise StateError(f"{self.stage}: the engine is not running")
        await self._on_start()

    def submit(self, request: StageRequest) -> None:
        """Take a new request; it fails at once where the process is dead.

        Raises:
            StateError: the engine is not running, or has a request of this fence already.
        """
        if self._sink is None:
            raise StateError(f"{self.stage}: the engine is not running")
        if request.fence in self._open:
            raise StateError(f"{self.stage}: {request.fence} has a request already")
        if not self._process.running:
            self._say(self._failed(request.fence, "its process is gone and not back yet; try again in a moment"))
            return
        self._open[request.fence] = True
        try:
            self._process.send(Submit(request=request))
        except ControlError as error:
            del self._open[request.fence]
            self._say(
                StageFailed(fence=request.fence, stage=self.stage, error=StageError(str(error), stage=self.stage))
            )

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        """Give a request one more chunk; what comes after the final chunk, or for one that is over, is given back."""
        if self._open.get(fence):
            self._open[fence] = not final
            self._process.send(Update(stage=self.stage, fence=fence, handle=handle, final=final))
        elif handle is not None:
            self._discard(handle)

    def abort(self, fence: Fence) -> None:
        """End a request; whatever the process says of it from now on is dropped."""
        if self._open.pop(fence, None) is not None:
            self._process.send(Abort(stage=self.stage, fence=fence))

    # What follows is called by the host.

    def said(self, event: StageEvent) -> None:
        """The process says something of one of its requests, which may be over here."""
        match event:
            case StageOutput(fence=fence, handle=handle) if fence not in self._open:
                self._discard(handle)
            case StageOutput():
                self._say(event)
            case StageFinished(fence=fence) | StageFailed(fence=fence):
                if self._open.pop(fence, None) is not None:
                    self._say(event)

    def has_spent(self, session_id: str, seconds: float) -> None:
        """The process tells what a session has cost it."""
        self._spent[session_id] = seconds

    def tell_death(self, reason: str) -> None:
        """The process has ended by itself; `fail` follows."""
        if self._on_death is not None:
            self._on_death(reason)

    def fail(self, reason: str) -> None:
        """The process is gone, by itself or because it was told to: every request that lives fails."""
        lost, self._open = self._open, {}
        for fence in lost:
            self._say(self._failed(fence, f"{reason}; what it was working on is lost and can be asked for again"))

    def _say(self, event: StageEvent) -> None:
        if self._sink is not None:
            self._sink(event)

    def _failed(self, fence: Fence, message: str) -> StageFailed:
        error: StageError = EngineDied(message, stage=self.stage)
        return StageFailed(fence=fence, stage=self.stage, error=error)

    def _discard(self, handle: Handle) -> None:
        with suppress(ConnectorError):  # It may have been dropped with its fence, or with the process that made it.
            self._connector.take(handle)
