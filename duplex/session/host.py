"""Opens sessions: admission first, then a runner with a task of its own, which outlives any connection."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from duplex.connector.base import Connector
from duplex.errors import AdmissionRefused, ClientError, StateError
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.session.admission import Admission
from duplex.session.attachment import Attachment
from duplex.session.core import Session
from duplex.session.holdings import HOST_MEMORY, OWNER, ConversationState
from duplex.session.lease import Lease
from duplex.session.lobby import Lobby, Usage
from duplex.session.notices import Closed
from duplex.session.port import LeasedPort, Terms
from duplex.session.runner import SessionRunner
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.turnlog import TurnLog
from duplex.session.visit import Visit
from duplex.state.store import StateStore

log = logging.getLogger(__name__)

STATE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """One session. `over`: it has ended, and the first attempt to clean up after it has been made."""

    runner: SessionRunner
    terms: Terms
    grace_s: float
    over: asyncio.Event

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
        admission: who may have a session, and who waits for one.
        turns: newest turns whose moments are kept.
        mailbox_events: most client events of one session that may wait.
        grace_s: how long a session that can be resumed waits for a client that was cut off; it keeps its place.
        clock: the event loop's.
        state_budget_bytes: most memory of all conversations.
        compute: seconds of each engine that a session has used, by its id.
        on_release: gives back what the engines keep for a session, by its id; called again until it does not raise.
    """

    def __init__(
        self,
        *,
        orchestrator: OrchestratorRunner,
        connector: Connector,
        settings: SessionSettings,
        limits: SessionLimits,
        admission: Admission,
        turns: int,
        mailbox_events: int,
        grace_s: float,
        clock: Callable[[], float],
        state_budget_bytes: int = STATE_BYTES,
        compute: Callable[[str], Mapping[str, float]],
        on_release: Callable[[str], None],
    ) -> None:
        self.admission = admission
        self.turns = TurnLog(capacity=turns)
        self.counters: Counter[str] = Counter()
        self.states: StateStore[ConversationState] = StateStore(owner=OWNER, budgets={HOST_MEMORY: state_budget_bytes})
        self._orchestrator = orchestrator
        self._connector = connector
        self._settings = settings
        self._limits = limits
        self._mailbox_events = mailbox_events
        self._clock = clock
        self._compute = compute
        self._on_release = on_release
        self._grace_s = grace_s
        self.lobby = Lobby(
            admission=admission, measure=self.measure, clean=self._clean, counters=self.counters, clock=clock
        )
        self._sessions: dict[str, _Held] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()
        self._attached_now = 0
        self._left = asyncio.Event()
        self._left.set()

    def refusal(self) -> AdmissionRefused | None:
        """Why `open` would be refused now; None where it would not, though one may have to wait."""
        return self.lobby.refusal()

    async def run(self) -> None:
        """Own the sessions' tasks until `close`, and then until the last has ended."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await self._closing.wait()
            except asyncio.CancelledError:
                self.close()  # Something else has failed: from here on nobody would own a session's task.
                raise

    @asynccontextmanager
    async def open(self, terms: Terms = Terms()) -> AsyncIterator[LeasedPort]:
        """Queue for a session and run it; see `port.SessionHost.open`. Raises StateError where `run` is not under way.

        A failed cleaning does not hold up who leaves: the place stays taken, and it is tried again.
        """
        if self._tasks is None:
            raise StateError("the host does not run yet")
        visit = Visit(
            session_id="sess_" + secrets.token_hex(8),
            terms=terms,
            token=secrets.token_urlsafe(24) if terms.resumable else "",
            grace_s=self._grace_s if terms.resumable else 0.0,
        )
        over = asyncio.Event()
        self.lobby.enter(visit)
        living = self._tasks.create_task(self._live(visit, over), name=f"session {visit.session_id}")
        # Not at the end of the task itself: one that is cancelled before its first step has no end.
        living.add_done_callback(lambda _: self._through(visit, over))
        async with self._attached(visit, over) as port:
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
        async with self._attached(attachment, held.over) as port:
            yield port

    @asynccontextmanager
    async def _attached(self, port: Visit | Attachment, over: asyncio.Event) -> AsyncIterator[LeasedPort]:
        self._attached_now += 1
        self._left.clear()
        try:
            yield port
        finally:
            self._attached_now -= 1
            if not self._attached_now:
                self._left.set()
            if not port.detach():
                await over.wait()

    async def _live(self, visit: Visit, over: asyncio.Event) -> None:
        """From the queue until the session is over, which may be long after its first connection has gone."""
        try:
            if await visit.admitted():
                await self._begin(visit, over).run()
        except Exception:  # The runner's boundary: what cannot even begin ends alone, and the server lives.
            log.exception("session %s could not begin", visit.session_id)
            self.counters["session_failures"] += 1
            visit.dismiss(Closed(reason="error", message="The session failed inside the server."))

    def _through(self, visit: Visit, over: asyncio.Event) -> None:
        self._sessions.pop(visit.session_id, None)
        visit.end()
        self.lobby.leave(visit.session_id)
        over.set()

    def _begin(self, visit: Visit, over: asyncio.Event) -> SessionRunner:
        runner = self._runner(visit.session_id, visit.terms, Lease(token=visit.token, grace_s=visit.grace_s))
        held = _Held(runner=runner, terms=visit.terms, grace_s=visit.grace_s, over=over)
        self._sessions[visit.session_id] = held
        visit.begin(held.attachment(visit.generation, visit.token))
        if self._closing.is_set():  # between its admission and this line
            runner.close("shutdown")
        return runner

    @property
    def detached(self) -> frozenset[str]:
        """Ids of the sessions that wait for a connection."""
        return frozenset(session_id for session_id, held in self._sessions.items() if held.runner.detached)

    def measure(self, session_id: str) -> Usage:
        """What a session has used so far and holds now."""
        session = self._sessions.get(session_id)
        nbytes = self._connector.held(session_id) + (session.runner.nbytes if session is not None else 0)
        return Usage(compute=self._compute(session_id), nbytes={HOST_MEMORY: nbytes})

    def _clean(self, session_id: str) -> None:
        self._connector.forget(session_id)  # Once more: what the session's own end gave back it gives back twice.
        self.states.release(session_id)
        self._on_release(session_id)

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
            states=self.states,
            orchestrator=self._orchestrator,
            connector=self._connector,
            turns=self.turns,
            counters=self.counters,
            mailbox_events=self._mailbox_events,
            clock=self._clock,
        )

    async def left(self) -> None:
        """Return when no connection holds a session or waits for one: after `close`, when each client was told."""
        await self._left.wait()

    def close(self) -> None:
        """Refuse new sessions, send away who waits for one, and ask those that are open to end."""
        self._closing.set()
        self.lobby.close()
        for held in self._sessions.values():
            held.runner.close("shutdown")
