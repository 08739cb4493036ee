"""Opens sessions: admission first, then a runner with a task of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from duplex.connector.base import Connector
from duplex.errors import AdmissionRefused
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.session.admission import Admission
from duplex.session.core import Session
from duplex.session.lobby import Lobby, Usage
from duplex.session.port import SessionPort
from duplex.session.runner import SessionRunner
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.turnlog import TurnLog
from duplex.session.visit import Visit

HOST_MEMORY = "host"
"""The device where a session's own state lies: its ring of audio, and what is between its stages."""


class Host:
    """Every session of this server (`port.SessionHost`).

    Args:
        orchestrator, connector: serve and carry for all of them.
        settings: where a session starts.
        limits: the server's bounds.
        admission: who may have a session, and who waits for one.
        turns: newest turns whose moments are kept.
        mailbox_events: most client events of one session that may wait.
        clock: the event loop's.
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
        clock: Callable[[], float],
        compute: Callable[[str], Mapping[str, float]],
        on_release: Callable[[str], None],
    ) -> None:
        self.admission = admission
        self.turns = TurnLog(capacity=turns)
        self.counters: Counter[str] = Counter()
        self._orchestrator = orchestrator
        self._connector = connector
        self._settings = settings
        self._limits = limits
        self._mailbox_events = mailbox_events
        self._clock = clock
        self._compute = compute
        self._on_release = on_release
        self.lobby = Lobby(
            admission=admission, measure=self.measure, clean=self._clean, counters=self.counters, clock=clock
        )
        self._runners: dict[str, SessionRunner] = {}
        self._closing = False

    def refusal(self) -> AdmissionRefused | None:
        """Why `open` would be refused now; None where it would not."""
        return self.lobby.refusal()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SessionPort]:
        """Queue for a session and run it; see `port.SessionHost.open`."""
        session_id = "sess_" + secrets.token_hex(8)
        visit = self.lobby.enter(session_id)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run(visit), name=f"session {session_id}")
                try:
                    yield visit
                finally:
                    visit.leave()
                    if (runner := self._runners.get(session_id)) is not None:
                        runner.close("disconnected")
        finally:
            self._runners.pop(session_id, None)
            self.lobby.leave(session_id)

    async def _run(self, visit: Visit) -> None:
        if await visit.admitted():
            runner = self._runners[visit.session_id] = self._runner(visit.session_id)
            visit.begin(runner)
            if self._closing:  # between its admission and this line
                runner.close("shutdown")
            await runner.run()

    def measure(self, session_id: str) -> Usage:
        """What a session has used so far and holds now."""
        runner = self._runners.get(session_id)
        held = self._connector.held(session_id) + (runner.nbytes if runner is not None else 0)
        return Usage(compute=self._compute(session_id), nbytes={HOST_MEMORY: held})

    def _clean(self, session_id: str) -> None:
        self._connector.forget(session_id)  # Once more: what the session's own end gave back it gives back twice.
        self._on_release(session_id)

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
        self.lobby.close()
        for runner in self._runners.values():
            runner.close("shutdown")
