"""The kernel as the server composes it, on a clock that stands still, with every part watched from outside.

Lobby, admission, visits, host, runners, leases, journals, outboxes, orchestrator and connector are the server's own.
Engines and transports are the test's; the bounds are small, so that everything overflows now and then.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from unittest import mock

from duplex.connector.payload import Kind
from duplex.orchestrator.core import Orchestrator
from duplex.orchestrator.graph import Edge, StageGraph, StageSpec
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.orchestrator.trace import TraceLog
from duplex.session import host, runner
from duplex.session.budget import Budget
from duplex.session.settings import ServerVad, SessionLimits, SessionSettings
from tests.kernel.account import Account
from tests.kernel.client import Client
from tests.kernel.engines import REACTIONS, Mood, Stage
from tests.kernel.prefixes import Prefixes, ThinkingStage
from tests.kernel.watching import Watch, WatchedAdmission, WatchedConnector, WatchedHost
from tests.session.virtual import VirtualLoop

PLACES, QUEUE, WAIT_S, GRACE_S = 3, 2, 11.0, 8.0
REQUESTS = 7
EVENTS = 4
CONNECTOR_BYTES = 300_000
STATE_BYTES = 9_000
LIMITS = SessionLimits(idle_s=60, lifetime_s=200, notice_s=10, audio_ahead_s=0.5, max_items=200)
BOUNDS = {"REPORTS": 80, "OUTBOX": 120, "KEPT": 10, "KEPT_BYTES": 40_000}
KINDS = {
    "listen": (Kind.PCM, Kind.SPEECH),
    "endpoint": (Kind.PCM, Kind.END_OF_TURN),
    "hear": (Kind.PCM, Kind.TRANSCRIPT),
    "think": (Kind.PROMPT, Kind.TEXT),
    "talk": (Kind.TEXT, Kind.TEXT),
    "code2wav": (Kind.TEXT, Kind.VOICED),
}


class Secrets:
    """Tokens without chance, so that a failing example can be found again."""

    def __init__(self) -> None:
        self._numbers = count()

    def token_hex(self, nbytes: int) -> str:
        return f"{next(self._numbers)}"

    def token_urlsafe(self, nbytes: int) -> str:
        return f"secret-{next(self._numbers)}"


def _graph() -> StageGraph:
    return StageGraph(
        name="scripted",
        stages=[
            StageSpec(
                name=stage,
                lifetime="session" if stage in ("listen", "endpoint") else "turn",
                accepts=frozenset({accepts, Kind.MARK}),
                gives=frozenset({gives}),
                final_output=stage != "talk",
            )
            for stage, (accepts, gives) in KINDS.items()
        ],
        edges=[
            Edge(source="think", target="talk", kind=Kind.TEXT),
            Edge(source="talk", target="code2wav", kind=Kind.TEXT),
        ],
    )


class Kernel:
    """One server without sockets and models.

    Attributes:
        stubborn: how often engines will refuse to let go of a session; `stuck`: those that they hold; `released`: those
            that they have let go; `let_go`: both, and what the server itself held of them is given back.
        hall: clients in the order in which they were let in or queued.
    """

    def __init__(self) -> None:
        # What is failed on purpose would fill the log of a test that fails for another reason.
        logging.getLogger("duplex.session").setLevel(logging.CRITICAL)
        self._patches = [mock.patch.multiple(runner, **BOUNDS), mock.patch.object(host, "secrets", Secrets())]
        for patch in self._patches:
            patch.start()
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(lambda _loop, context: self.account.wrong.append(f"in the loop: {context}"))
        self.account = Account()
        self.mood = Mood()
        self.stubborn = 0
        self.hall: list[Client] = []
        self.stuck: set[str] = set()
        self.released: set[str] = set()
        self.let_go: set[str] = set()
        self.connector = WatchedConnector(budget_bytes=CONNECTOR_BYTES, account=self.account)
        self.stages: dict[str, Stage] = {
            name: Stage(name=name, connector=self.connector, account=self.account, mood=self.mood, react=react)
            for name, react in REACTIONS.items()
            if name != "think"
        }
        self.prefixes = Prefixes()
        self.stages["think"] = ThinkingStage(
            prefixes=self.prefixes,
            name="think",
            connector=self.connector,
            account=self.account,
            mood=self.mood,
            react=REACTIONS["think"],
        )
        self.orchestrator = OrchestratorRunner(
            core=Orchestrator(_graph(), capacity=REQUESTS),
            engines=self.stages,
            connector=self.connector,
            clock=self.loop.time,
            trace=TraceLog(capacity=8),
        )
        self.admission = WatchedAdmission(budget=Budget(sessions=PLACES), queue_length=QUEUE, queue_wait_s=WAIT_S)
        self.host = WatchedHost(
            orchestrator=self.orchestrator,
            connector=self.connector,
            settings=SessionSettings(turn_detection=ServerVad(silence_ms=200)),
            limits=LIMITS,
            admission=self.admission,
            turns=8,
            mailbox_events=EVENTS,
            grace_s=GRACE_S,
            state_budget_bytes=STATE_BYTES,
            clock=self.loop.time,
            compute=lambda session_id: {"think": 0.1},
            on_release=self._release,
        )
        self.host.watch = Watch(account=self.account, clock=self.loop.time)
        self.loop.run_until_complete(self.orchestrator.start())
        self.running = self.loop.create_task(self.host.run())
        self.loop.settle()

    def _release(self, session_id: str) -> None:
        account = self.account
        account.expect(session_id not in self.released, "released twice")
        account.expect(self.connector.held(session_id) == 0, "a session is over, and its bytes are not given back")
        for fence in [
            *(fence for stage in self.stages.values() for fence in stage.jobs),
            *self.orchestrator._receivers,
        ]:
            account.expect(fence.session_id != session_id, f"a session is over, and {fence} is still at work")
        self.let_go.add(session_id)
        if self.stubborn:
            self.stubborn -= 1
            self.stuck.add(session_id)
            raise OSError("the engine does not let go")
        self.prefixes.release(session_id)
        self.stuck.discard(session_id)
        self.released.add(session_id)

    # Time and work --------------------------------------------------------------------------------

    def step(self, ticks: int) -> None:
        """Let the loop run so many rounds."""
        for _ in range(ticks):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def flow(self, rounds: int) -> None:
        """Let engines work as they are meant to, all at once; each round every request makes one step."""
        for _ in range(rounds):
            busy = [(stage, job) for stage in self.stages.values() for job in stage.busy]
            if not busy and not any(stage.on_their_way for stage in self.stages.values()):
                return
            self.prefixes.let_go()
            if self.mood.slow:
                self._deliver()
            for stage, job in busy:
                if job.fence in stage.jobs:
                    stage.work(job)
            if not self.mood.slow:
                self._deliver()

    def _deliver(self) -> None:
        for stage in self.stages.values():
            stage.deliver(1000)
        self.loop.settle()

    # The end ----------------------------------------------------------------------------------------

    def assert_nothing_left(self) -> None:
        """After everybody has gone and the host is closed."""
        assert self.running.done()
        assert len(self.admission) == 0
        assert self.admission.places == {}
        assert self.host.lobby._visits == {}
        assert self.host._sessions == {}
        assert self.admission.deadline is None
        assert self.host.lobby._timer is None
        assert len(self.orchestrator.core) == 0
        assert self.orchestrator._receivers == {}
        assert [fence for stage in self.stages.values() for fence in stage.jobs] == []
        for stage in self.stages.values():
            stage.deliver(10_000)
            stage.speak_too_late()
        self.loop.settle()
        assert len(self.connector) == self.connector.nbytes == 0
        assert self.host.states.refs() == self.prefixes.table.store.refs() == ()
        assert self.host.states.check_integrity() == self.prefixes.findings() == []
        assert self.prefixes.running == {}
        assert self.connector._retired == {}
        assert not asyncio.all_tasks(self.loop), "a task was left"

    def close(self) -> None:
        """Give back what the loop holds, whatever has happened."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.settle()
        self.loop.run_until_complete(self.orchestrator.stop())
        self.loop.close()
        for patch in self._patches:
            patch.stop()
        logging.getLogger("duplex.session").setLevel(logging.NOTSET)
