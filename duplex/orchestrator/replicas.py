"""Runs the pool of a stage: several engines that look like one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from duplex.connector.base import Connector, Handle
from duplex.engine.base import Engine, Sink, StageEvent, StageOutput, StageRequest
from duplex.errors import ConfigError, ConnectorError, StageError, StateError
from duplex.orchestrator.member import Life, Member
from duplex.orchestrator.pool import StagePool
from duplex.orchestrator.pooling import (
    Abort,
    AbortOn,
    Died,
    Discard,
    Forget,
    Forward,
    PoolEffect,
    PoolEvent,
    PoolNotice,
    PoolView,
    Quarantined,
    Rebuilt,
    Release,
    Restart,
    Said,
    Shut,
    Started,
    Submit,
    SubmitTo,
    Unbound,
    Update,
    UpdateTo,
)
from duplex.session.fence import Fence

log = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0


class ReplicatedEngine:
    """The replicas of one stage as one `Engine`. Every method is called on the event loop.

    The death of a replica touches its own requests and no other; see `StagePool` for what becomes of them. An abort is
    exact: after `abort` has returned, nothing is said of that request, whatever the replica still says. An engine's
    words take one more turn of the loop than those of an engine that stands alone.

    It is started once: after `stop` it is of no more use.

    Args:
        core: decides; nothing has happened to it yet.
        members: one for each of its replicas.
        connector: where input and output that nobody needs is thrown away.
        tasks: own the restarts.
        clock: seconds; the event loop's own.
        tell: told of lost bindings, of new ones in their place (`Rebuilt`: restore the session's state there, at once),
            and of quarantines; called on the loop, and does not wait.
        start_timeout_s: a restart that takes longer has failed.

    Raises:
        ConfigError: there are more members than replicas, or fewer.
    """

    def __init__(
        self,
        *,
        core: StagePool,
        members: Sequence[Member],
        connector: Connector,
        tasks: asyncio.TaskGroup,
        clock: Callable[[], float],
        tell: Callable[[PoolNotice], None] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        if len(members) != len(core.fleet.replicas):
            raise ConfigError(f"stage {core.stage} has {len(core.fleet.replicas)} replicas and {len(members)} engines")
        self._core = core
        self._members = tuple(members)
        self._connector = connector
        self._tasks = tasks
        self._clock = clock
        self._tell = tell
        self._start_timeout_s = start_timeout_s
        self._sink: Sink | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._restarts: dict[int, asyncio.Task[None]] = {}
        self._pending: deque[PoolEffect] = deque()
        self._performing = False

    @property
    def pure(self) -> bool:
        """Whether the pool is a reader of every input beside the replica that is given it."""
        return self._core.pure

    @property
    def active(self) -> int:
        """Requests alive."""
        return len(self._core)

    def snapshot(self) -> PoolView:
        """What an operator wants to know."""
        return self._core.snapshot(self._clock())

    async def start(self, sink: Sink) -> None:
        """Start all replicas at once. Raises StageError where one cannot start; the others are stopped then."""
        self._sink = sink
        failures: list[StageError] = []
        started: list[Engine] = []

        async def begin(number: int, member: Member) -> None:
            try:
                await member.engine.start(self._sink_of(number))
            except StageError as error:
                failures.append(error)
                return
            started.append(member.engine)
            self._happened(Started(number=number, life=0))

        try:
            async with asyncio.TaskGroup() as starting:
                for number, member in enumerate(self._members):
                    if member.life is not None:
                        member.life.watch(partial(self._died, number))
                    starting.create_task(begin(number, member), name=f"start {self._core.stage} {number}")
            if failures:
                raise failures[0]
        except BaseException:
            await self._stop(started)
            raise

    async def stop(self) -> None:
        """Stop every replica; requests still alive are aborted without a word."""
        await self._stop([member.engine for member in self._members])

    async def _stop(self, engines: list[Engine]) -> None:
        self._sink = None
        self._happened(Shut())
        if self._timer is not None:
            self._timer.cancel()
        restarts = list(self._restarts.values())
        for restart in restarts:
            restart.cancel()
        if restarts:
            await asyncio.wait(restarts)
        for engine in reversed(engines):
            await engine.stop()

    def submit(self, request: StageRequest) -> None:
        """Raises StateError where its fence has a request already."""
        self._happened(Submit(request=request))

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        self._happened(Update(fence=fence, handle=handle, final=final))

    def abort(self, fence: Fence) -> None:
        self._happened(Abort(fence=fence))

    def forget(self, session_id: str) -> None:
        """The session is over. Calling it twice is fine."""
        self._happened(Forget(session_id=session_id))

    def release(self, number: int) -> None:
        """Start a replica that is in quarantine. Raises StateError where it is in none."""
        self._happened(Release(number=number))

    # What replicas say ------------------------------------------------------------------------

    def _sink_of(self, number: int) -> Sink:
        loop = asyncio.get_running_loop()
        replica = self._core.fleet[number]

        def sink(event: StageEvent) -> None:
            loop.call_soon_threadsafe(self._said, number, replica.life, event)

        return sink

    def _said(self, number: int, life: int, event: StageEvent) -> None:
        if self._sink is not None:
            self._happened(Said(number=number, life=life, event=event))
        elif isinstance(event, StageOutput):
            self._discard(event.handle)

    def _died(self, number: int, reason: str) -> None:
        if self._sink is not None:
            log.warning("%s: replica %d died: %s", self._core.stage, number, reason)
            self._happened(Died(number=number, life=self._core.fleet[number].life, reason=reason))

    # The core's effects -----------------------------------------------------------------------

    def _happened(self, event: PoolEvent) -> None:
        self._do(self._core.receive(event, self._clock()))

    def _woken(self) -> None:
        self._timer = None
        self._do(self._core.wake(self._clock()))

    def _do(self, effects: list[PoolEffect]) -> None:
        self._pending.extend(effects)
        if self._performing:  # An engine has called back: whoever is performing goes on with the new effects.
            return
        self._performing = True
        try:
            while self._pending:
                self._perform(self._pending.popleft())
        finally:
            self._performing = False
            self._arm()

    def _arm(self) -> None:
        """Have the loop's one timer stand at the core's deadline."""
        due = self._core.deadline if self._sink is not None else None
        if self._timer is not None:
            if self._timer.when() == due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._woken) if due is not None else None

    def _perform(self, effect: PoolEffect) -> None:
        match effect:
            case SubmitTo(number=number, request=request):
                # It may have lost the request again while the effects before this one were performed.
                if self._core.holds(number, request.fence):
                    self._members[number].engine.submit(request)
            case UpdateTo(number=number, fence=fence, handle=handle, final=final):
                if self._core.holds(number, fence):
                    self._members[number].engine.update(fence, handle, final=final)
                elif handle is not None:
                    self._discard(handle)
            case AbortOn(number=number, fence=fence):
                self._members[number].engine.abort(fence)
            case Forward(event=event):
                if self._sink is not None:
                    self._sink(event)
            case Discard(handle=handle):
                self._discard(handle)
            case Restart(number=number, life=life):
                self._restart(number, life)
            case Unbound() | Rebuilt() | Quarantined():
                if isinstance(effect, Quarantined):
                    log.error("%s: replica %d died too often: quarantine", self._core.stage, effect.number)
                if self._tell is not None:
                    self._tell(effect)

    def _discard(self, handle: Handle) -> None:
        with contextlib.suppress(ConnectorError):  # Gone with its fence, or with the process that it was in.
            self._connector.take(handle)

    # Restarts ---------------------------------------------------------------------------------

    def _restart(self, number: int, life: int) -> None:
        member = self._members[number]
        if member.life is None:
            raise StateError(f"{self._core.stage}: replica {number} has no life of its own to begin again")
        log.info("%s: replica %d starts again", self._core.stage, number)
        task = self._tasks.create_task(
            self._begin_again(number, life, member.life, self._restarts.get(number)),
            name=f"restart {self._core.stage} {number}",
        )
        self._restarts[number] = task

        def over(ended: asyncio.Task[None]) -> None:
            if self._restarts.get(number) is ended:
                del self._restarts[number]

        task.add_done_callback(over)

    async def _begin_again(self, number: int, life: int, body: Life, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():  # It has died while it started, which is over only now.
            await asyncio.wait([before])
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await body.restart()
        except Exception as error:  # the runner's boundary: a replica that cannot start is dead, and nothing else is
            reason = f"it could not be started again: {str(error) or type(error).__name__}"
            log.warning("%s: replica %d: %s", self._core.stage, number, reason)
            event: PoolEvent = Died(number=number, life=life, reason=reason)
        else:
            event = Started(number=number, life=life)
        if self._sink is not None:
            self._happened(event)
