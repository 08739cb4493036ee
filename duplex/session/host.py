"""Opens sessions: admission first, then a runner with a task of its own, which outlives any connection."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from duplex.connector.base import Connector
from duplex.errors import AdmissionRefused, ClientError, StateError
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.session.admission import RETRY_AFTER_S, Admission
from duplex.session.attachment import Attachment
from duplex.session.core import Session
from duplex.session.lease import Lease
from duplex.session.port import LeasedPort, Terms
from duplex.session.runner import SessionRunner
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.turnlog import TurnLog


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """One session. `over`: it has given everything back."""

    runner: SessionRunner
    terms: Terms
    grace_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def attachment(self, generation: int, token: str, *, resynced: bool = False) -> Attachment:
        return Attachment(
            runner=self.runner,
            generation=generation,
            token=token,
            grace_s=self.grace_s,
            wire=self.terms.wire,
            resynced=resynced,
        )


class Host:
    """Every session of this server (`port.SessionHost`). Sessions live in the task of `run`.

    Args:
        orchestrator, connector: serve and carry for all of them.
        settings: where a session starts.
        limits: the server's bounds.
        capacity: most sessions at one time.
        turns: newest turns whose moments are kept.
        mailbox_events: most client events of one session that may wait.
        grace_s: how long a session that can be resumed waits for a client that was cut off.
        clock: the event loop's.
        on_release: told the id of each session that is over and has given everything back.
    """

    def __init__(
        self,
        *,
        orchestrator: OrchestratorRunner,
        connector: Connector,
        settings: SessionSettings,
        limits: SessionLimits,
        capacity: int,
        turns: int,
        mailbox_events: int,
        grace_s: float,
        clock: Callable[[], float],
        on_release: Callable[[str], None],
    ) -> None:
        self.admission = Admission(capacity=capacity)
        self.turns = TurnLog(capacity=turns)
        self.counters: Counter[str] = Counter()
        self._orchestrator = orchestrator
        self._connector = connector
        self._settings = settings
        self._limits = limits
        self._mailbox_events = mailbox_events
        self._clock = clock
        self._on_release = on_release
        self._grace_s = grace_s
        self._sessions: dict[str, _Held] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()
        self._attached_now = 0
        self._left = asyncio.Event()
        self._left.set()

    def refusal(self) -> AdmissionRefused | None:
        """Why `open` would be refused now; None where it would not."""
        return self._shutting_down() if self._closing.is_set() else self.admission.refusal()

    def _shutting_down(self) -> AdmissionRefused:
        return AdmissionRefused("The server is shutting down.", retry_after_s=RETRY_AFTER_S)

    async def run(self) -> None:
        """Own the sessions' tasks until `close`, and then until the last has ended."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await self._closing.wait()

    @asynccontextmanager
    async def open(self, terms: Terms = Terms()) -> AsyncIterator[LeasedPort]:
        """Admit and run one session; see `port.SessionHost.open`. Raises StateError where `run` is not under way."""
        if self._closing.is_set():
            raise self._shutting_down()
        session_id = "sess_" + secrets.token_hex(8)
        self._admit(session_id)
        token = secrets.token_urlsafe(24)
        try:
            held = self._start(session_id, terms, token)
        except BaseException:
            self.admission.release(session_id)
            raise
        async with self._attached(held, held.attachment(0, token if terms.resumable else "")) as port:
            yield port

    @asynccontextmanager
    async def resume(self, session_id: str, *, token: str, seen: int) -> AsyncIterator[LeasedPort]:
        """Take a session over; see `port.SessionHost.resume`."""
        held = self._sessions.get(session_id)
        if held is None:
            raise ClientError("There is no such session, or it is over; open a new one.", code="session_closed")
        following = secrets.token_urlsafe(24)
        generation, resynced = held.runner.attach(token, seen=seen, following=following)
        attachment = held.attachment(generation, following, resynced=resynced)
        async with self._attached(held, attachment) as port:
            yield port

    @asynccontextmanager
    async def _attached(self, held: _Held, attachment: Attachment) -> AsyncIterator[LeasedPort]:
        self._attached_now += 1
        self._left.clear()
        try:
            yield attachment
        finally:
            self._attached_now -= 1
            if not self._attached_now:
                self._left.set()
            attachment.detach()
            if held.grace_s <= 0:
                await held.over.wait()

    def _start(self, session_id: str, terms: Terms, token: str) -> _Held:
        if self._tasks is None:
            raise StateError("the host does not run yet")
        grace_s = self._grace_s if terms.resumable else 0.0
        runner = self._runner(session_id, terms, Lease(token=token, grace_s=grace_s))
        held = self._sessions[session_id] = _Held(runner=runner, terms=terms, grace_s=grace_s)
        self._tasks.create_task(self._live(session_id, held), name=f"session {session_id}")
        return held

    async def _live(self, session_id: str, held: _Held) -> None:
        try:
            await held.runner.run()
        finally:
            del self._sessions[session_id]
            self._on_release(session_id)
            self.admission.release(session_id)
            held.over.set()

    def _admit(self, session_id: str) -> None:
        try:
            self.admission.admit(session_id)
        except AdmissionRefused:
            self.counters["sessions_refused"] += 1
            raise
        self.counters["sessions_opened"] += 1

    def _runner(self, session_id: str, terms: Terms, lease: Lease) -> SessionRunner:
        core = Session(
            session_id=session_id,
            settings=self._settings,
            limits=self._limits,
            now=self._clock(),
            acknowledged=terms.acknowledged,
        )
        return SessionRunner(
            core=core,
            lease=lease,
            limits=self._limits,
            orchestrator=self._orchestrator,
            connector=self._connector,
            turns=self.turns,
            counters=self.counters,
            mailbox_events=self._mailbox_events,
            clock=self._clock,
        )

    async def left(self) -> None:
        """Return when no connection holds a session: after `close`, when each client has been told."""
        await self._left.wait()

    def close(self) -> None:
        """Refuse new sessions, and ask those that are open to end."""
        self._closing.set()
        for held in self._sessions.values():
            held.runner.close("shutdown")
