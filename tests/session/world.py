"""Real sessions over scripted engines: runner, host, orchestrator and connector are the server's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Kind, Payload
from duplex.orchestrator.core import Orchestrator
from duplex.orchestrator.graph import Edge, StageGraph, StageSpec
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.orchestrator.trace import TraceLog
from duplex.session.admission import Admission
from duplex.session.budget import Budget
from duplex.session.holdings import HOST_MEMORY
from duplex.session.host import Host
from duplex.session.settings import ServerVad, SessionLimits, SessionSettings
from tests.session.engines import (
    Say,
    ScriptedEngine,
    hears_loudness,
    ignores,
    recognises,
    talks,
    thinks,
    voices,
)

WINDOW = 512
KINDS = {
    "listen": (Kind.PCM, Kind.SPEECH),
    "endpoint": (Kind.PCM, Kind.END_OF_TURN),
    "hear": (Kind.PCM, Kind.TRANSCRIPT),
    "think": (Kind.PROMPT, Kind.TEXT),
    "talk": (Kind.TEXT, Kind.TEXT),
    "code2wav": (Kind.TEXT, Kind.VOICED),
}


@dataclass
class World:
    host: Host
    orchestrator: OrchestratorRunner
    connector: MemoryConnector
    engines: dict[str, ScriptedEngine]

    async def over(self) -> None:
        """Every session has ended, also those that wait for a connection."""
        self.host.close()
        async with asyncio.timeout(5):
            while len(self.host.admission):  # noqa: ASYNC110 - nobody is told any more
                await asyncio.sleep(0.001)

    def assert_nothing_left(self) -> None:
        assert len(self.host.admission) == 0
        assert len(self.orchestrator.core) == 0
        assert len(self.connector) == self.connector.nbytes == 0
        assert len(self.host.states) == self.host.states.ledger.taken(HOST_MEMORY) == 0
        assert not [engine.stage for engine in self.engines.values() if engine.live]


@asynccontextmanager
async def world(
    *,
    capacity: int = 2,
    queue_length: int = 0,
    queue_wait_s: float = 60.0,
    on_release: Callable[[str], None] = lambda session_id: None,
    mailbox_events: int = 64,
    grace_s: float = 30.0,
    state_budget_bytes: int = 1 << 22,
    **reactions: Callable[[Payload, Say], None],
) -> AsyncIterator[World]:
    before = asyncio.all_tasks()
    connector = MemoryConnector(budget_bytes=1 << 22)
    react = {
        "listen": hears_loudness,
        "endpoint": ignores,
        "hear": recognises,
        "think": thinks,
        "talk": talks,
        "code2wav": voices(4, 2400),
        **reactions,
    }
    engines = {stage: ScriptedEngine(stage=stage, connector=connector, react=react[stage]) for stage in KINDS}
    graph = StageGraph(
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
    loop = asyncio.get_running_loop()
    orchestrator = OrchestratorRunner(
        core=Orchestrator(graph, capacity=32),
        engines=engines,
        connector=connector,
        clock=loop.time,
        trace=TraceLog(capacity=32),
    )
    host = Host(
        orchestrator=orchestrator,
        connector=connector,
        settings=SessionSettings(turn_detection=ServerVad(silence_ms=96)),
        limits=SessionLimits(audio_ahead_s=0.5),
        admission=Admission(budget=Budget(sessions=capacity), queue_length=queue_length, queue_wait_s=queue_wait_s),
        turns=32,
        mailbox_events=mailbox_events,
        grace_s=grace_s,
        state_budget_bytes=state_budget_bytes,
        clock=loop.time,
        compute=lambda session_id: {},
        on_release=on_release,
    )
    await orchestrator.start()
    made = World(host, orchestrator, connector, engines)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(host.run())
        await asyncio.sleep(0)
        yield made
        host.close()
    await orchestrator.stop()
    made.assert_nothing_left()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before, "a task was left"
