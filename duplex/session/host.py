"""Opens sessions: admission first, then a runner with a task of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from duplex.connector.base import Connector
from duplex.errors import AdmissionRefused
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.session.admission import RETRY_AFTER_S, Admission
from duplex.session.core import Session
from duplex.session.port import SessionPort
from duplex.session.runner import SessionRunner
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.turnlog import TurnLog


class Host:
    """Every session of this server (`port.SessionHost`).

    Args:
        orchestrator, connector: serve and carry for all of them.
        settings: where a session starts.
        limits: the server's bounds.
        capacity: most sessions at one time.
        turns: newest turns whose moments are kept.
        mailbox_events: most client events of one session that may wait.
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
        self._runners: dict[str, SessionRunner] = {}
        self._closing = False

    def refusal(self) -> AdmissionRefused | None:
        """Why `open` would be refused now; None where it would not."""
        return self._shutting_down() if self._closing else self.admission.refusal()

    def _shutting_down(self) -> AdmissionRefused:
        return AdmissionRefused("The server is shutting down.", retry_after_s=RETRY_AFTER_S)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SessionPort]:
        """Admit and run one session; see `port.SessionHost.open`."""
        if self._closing:
            raise self._shutting_down()
        session_id = "sess_" + secrets.token_hex(8)
        self._admit(session_id)
        try:
            runner = self._runner(session_id)
            self._runners[session_id] = runner
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(runner.run(), name=f"session {session_id}")
                try:
                    yield runner
                finally:
                    runner.close("disconnected")
        finally:
            self._runners.pop(session_id, None)
            self._on_release(session_id)
            self.admission.release(session_id)

    def _admit(self, session_id: str) -> None:
        try:
            self.admission.admit(session_id)
        except AdmissionRefused:
            self.counters["sessions_refused"] += 1
            raise
        self.counters["sessions_opened"] += 1

    def _runner(self, session_id: str) -> SessionRunner:
        now = self._clock()
        core = Session(session_id=session_id, settings=self._settings, limits=self._limits, now=now)
        return SessionRunner(
            core=core,
            limits=self._limits,
            orchestrator=self._orchestrator,
            connector=self._connector,
            turns=self.turns,
            counters=self.counters,
            mailbox_events=self._mailbox_events,
            clock=self._clock,
        )

    def close(self) -> None:
        """Refuse new sessions, and ask those that are open to end."""
        self._closing = True
        for runner in self._runners.values():
            runner.close("shutdown")
