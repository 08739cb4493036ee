"""Replicas that die under the real orchestrator, with a real connector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Kind, Text
from duplex.engine.base import StageEvent
from duplex.errors import ConfigError, NoReplica, ReplicaLost, StageError, StateError
from duplex.orchestrator.core import Deliver, Orchestrator, RequestCompleted, RequestFailed
from duplex.orchestrator.graph import Edge, StageGraph, StageSpec
from duplex.orchestrator.member import Member
from duplex.orchestrator.pool import StagePool
from duplex.orchestrator.pooling import PoolNotice, Quarantined, Rebuilt, Unbound
from duplex.orchestrator.replica import RestartPolicy
from duplex.orchestrator.replicas import ReplicatedEngine
from duplex.orchestrator.runner import OrchestratorRunner, Report
from duplex.orchestrator.trace import TraceLog
from duplex.session.fence import MAIN, Fence
from tests.orchestrator.mortal import Mortal

pytestmark = pytest.mark.anyio

A, B = Fence("a", 0, MAIN, 1), Fence("b", 0, MAIN, 1)
TEXT = frozenset({Kind.TEXT})
THINK = StageSpec(name="think", lifetime="turn", accepts=TEXT, gives=TEXT, final_output=True)
TALK = StageSpec(name="talk", lifetime="turn", accepts=TEXT, gives=TEXT, final_output=True)
PATIENCE_S = 5.0
"""Longest that a whole test may take, each of which takes milliseconds: what waits for ever fails soon."""

QUICK = RestartPolicy(first_s=0.001, most_s=0.001, deaths=3, window_s=60.0)


@dataclass
class Place:
    """A graph of two stages, `think` by itself, and `talk` by two replicas; and what its requests have told."""

    connector: MemoryConnector
    runner: OrchestratorRunner
    think: Mortal
    talk: list[Mortal]
    engine: ReplicatedEngine
    notices: list[PoolNotice]
    texts: dict[Fence, list[str]] = field(default_factory=dict)
    ends: dict[Fence, asyncio.Future[Report]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def admit(self, fence: Fence, *stages: str) -> None:
        self.ends[fence] = asyncio.get_running_loop().create_future()
        self.runner.admit(fence, stages or ("talk",), self.told)

    def feed(self, fence: Fence, text: str, *, last: bool = False, stage: str = "talk") -> None:
        handle = self.connector.put(fence, Text(text=text, start=0))
        self.runner.update(fence, stage, handle, last=last)

    def told(self, report: Report) -> None:
        self.news.set()
        match report:
            case Deliver(fence=fence, handle=handle):
                payload = self.connector.take(handle)
                assert isinstance(payload, Text)
                self.texts.setdefault(fence, []).append(payload.text)
            case RequestCompleted(fence=fence) | RequestFailed(fence=fence):
                self.ends[fence].set_result(report)

    async def heard(self, fence: Fence, *texts: str) -> None:
        """Return when exactly this has been delivered."""
        while self.texts.get(fence, []) != list(texts):
            self.news.clear()
            await self.news.wait()

    async def failure(self, fence: Fence) -> StageError:
        report = await self.ends[fence]
        assert isinstance(report, RequestFailed)
        return report.error

    async def completed(self, fence: Fence) -> bool:
        return isinstance(await self.ends[fence], RequestCompleted)

    def states(self) -> list[str]:
        return [replica.state for replica in self.engine.snapshot().replicas]

    async def until(self, *states: str) -> None:
        """Return when the replicas are in these states, after at most a few turns of the loop."""
        for _ in range(20):
            if self.states() == list(states):
                return
            await asyncio.sleep(0)
        assert self.states() == list(states)


@asynccontextmanager
async def a_place(
    *, pure: bool = False, policy: RestartPolicy = QUICK, park_s: float = 5.0, start_timeout_s: float = 5.0
) -> AsyncIterator[Place]:
    """Everything runs; at the end nothing may be left of it."""
    loop = asyncio.get_running_loop()
    connector = MemoryConnector(budget_bytes=1 << 20)
    think, talk = Mortal(connector, "think"), [Mortal(connector), Mortal(connector)]
    graph = StageGraph(name="g", stages=[THINK, TALK], edges=[Edge(source="think", target="talk", kind=Kind.TEXT)])
    notices: list[PoolNotice] = []
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        engine = ReplicatedEngine(
            core=StagePool(stage="talk", replicas=2, policy=policy, chance=lambda: 0.0, pure=pure, park_s=park_s),
            members=[Member(engine=one, life=one) for one in talk],
            connector=connector,
            tasks=tasks,
            clock=loop.time,
            tell=notices.append,
            start_timeout_s=start_timeout_s,
        )
        runner = OrchestratorRunner(
            core=Orchestrator(graph, capacity=8),
            engines={"think": think, "talk": engine},
            connector=connector,
            clock=loop.time,
            trace=TraceLog(capacity=8),
        )
        await runner.start()
        yield Place(connector=connector, runner=runner, think=think, talk=talk, engine=engine, notices=notices)
        await runner.stop()
    assert [one.stops for one in talk] == [1, 1]
    assert engine.active == 0
    assert len(connector) == 0, "a payload was left behind"


async def test_a_session_stays_with_its_replica_through_its_turns() -> None:
    async with a_place() as place:
        first, second = place.talk
        for fence in (A, B, A.next(), B.next()):
            place.admit(fence)
            place.feed(fence, "word", last=True)
            for one in place.talk:
                one.work()
            assert await place.completed(fence)
            assert place.texts[fence] == ["WORD"]
        assert first.submitted == [A, A.next()]
        assert second.submitted == [B, B.next()]
        place.engine.forget("a")
        place.engine.forget("a")
        assert [replica.sessions for replica in place.engine.snapshot().replicas] == [0, 1]


async def test_a_death_costs_its_own_request_and_no_other() -> None:
    async with a_place() as place:
        first, second = place.talk
        first.may_start.clear()
        for fence in (A, B):
            place.admit(fence)
            place.feed(fence, "one")
        first.kill()
        error = await place.failure(A)
        assert isinstance(error, ReplicaLost)
        assert error.retry_after_s == 0.0
        assert str(error) == (
            "talk: replica 0 is lost (signal 9); the request is not tried again: the stage is not pure; ask again"
        )
        assert place.notices == [Unbound(session_id="a", number=0, reason="signal 9")]
        place.feed(B, "two", last=True)
        place.admit(A.next())
        assert place.notices[1:] == [Rebuilt(session_id="a", number=1)]
        place.feed(A.next(), "again", last=True)
        second.work()
        assert await place.completed(B)
        assert await place.completed(A.next())
        assert place.texts == {B: ["ONE", "TWO"], A.next(): ["AGAIN"]}
        assert await first.attempts.get() == 1
        first.may_start.set()
        await place.until("ready", "ready")


@pytest.mark.parametrize("heard", [0, 1])
async def test_a_pure_stage_goes_on_where_another_replica_died(heard: int) -> None:
    async with a_place(pure=True) as place:
        first, second = place.talk
        place.admit(A)
        if heard:
            place.feed(A, "one")
            first.work()
            await place.heard(A, "ONE")
        else:
            place.feed(A, "one")
        place.feed(A, "two")
        first.kill()
        assert second.had == {A: ["one", "two"]}
        second.work()
        await place.heard(A, "ONE", "TWO")
        place.feed(A, "three", last=True)
        second.work()
        assert await place.completed(A)
        assert place.texts[A] == ["ONE", "TWO", "THREE"]


async def test_a_pure_stage_reads_beside_the_others() -> None:
    async with a_place(pure=True) as place:
        first, second = place.talk
        place.admit(A, "think", "talk")
        place.feed(A, "one", last=True, stage="think")
        place.think.work()
        await place.heard(A, "ONE")
        first.kill()
        assert second.had == {A: ["ONE"]}
        second.work()
        assert await place.completed(A)
        assert place.texts[A] == ["ONE", "ONE"]


async def test_a_request_waits_for_a_replica_that_starts() -> None:
    async with a_place() as place:
        for one in place.talk:
            one.may_start.clear()
            one.kill()
        place.admit(A)
        place.feed(A, "patience", last=True)
        assert place.engine.snapshot().parked == 1
        place.talk[1].may_start.set()
        await place.talk[1].living.wait()
        await place.until("starting", "ready")
        place.talk[1].work()
        assert await place.completed(A)
        assert place.texts[A] == ["PATIENCE"]


async def test_a_request_does_not_wait_for_ever() -> None:
    async with a_place(park_s=0.01) as place:
        for one in place.talk:
            one.may_start.clear()
            one.kill()
        place.admit(A)
        place.feed(A, "impatience")
        error = await place.failure(A)
        assert isinstance(error, NoReplica)
        assert str(error) == "talk: no replica was ready within 0.01 s; try again in 1 s"


async def test_what_cannot_start_is_quarantined_until_an_operator_releases_it() -> None:
    async with a_place() as place:
        first = place.talk[0]
        first.refusal = "no memory"
        first.kill()
        assert [await first.attempts.get() for _ in range(2)] == [1, 2]
        await place.until("quarantined", "ready")
        reason = "it could not be started again: no memory"
        assert place.notices == [Quarantined(number=0, reason=reason)]
        view = place.engine.snapshot().replicas[0]
        assert (view.deaths, view.restarts, view.next_restart_s, view.reason) == (3, 2, None, reason)
        with pytest.raises(StateError):
            place.engine.release(1)
        first.refusal = ""
        place.engine.release(0)
        await first.living.wait()
        await place.until("ready", "ready")


async def test_a_restart_that_takes_too_long_has_failed() -> None:
    async with a_place(start_timeout_s=0.01) as place:
        first = place.talk[0]
        first.may_start.clear()
        first.kill()
        assert [await first.attempts.get() for _ in range(2)] == [1, 2]
        assert place.engine.snapshot().replicas[0].reason == "it could not be started again: TimeoutError"


async def test_an_aborted_request_says_nothing_more() -> None:
    async with a_place(pure=True) as place:
        first = place.talk[0]
        place.admit(A)
        place.feed(A, "one")
        first.say(A, "on its way")
        place.runner.abort(A)
        first.say(A, "late")
        place.admit(A.next())  # Its words go the same way, and come after those.
        place.feed(A.next(), "two", last=True)
        first.work()
        assert await place.completed(A.next())
        assert place.texts == {A.next(): ["TWO"]}


async def test_engines_may_speak_from_any_thread() -> None:
    async with a_place() as place:
        place.admit(A)
        place.feed(A, "one", last=True)
        await asyncio.to_thread(place.talk[0].work)
        assert await place.completed(A)
        assert place.texts[A] == ["ONE"]


async def test_stopping_ends_restarts_and_requests() -> None:
    async with a_place(pure=True) as place:
        first, second = place.talk
        first.may_start.clear()
        first.kill()
        await first.attempts.get()
        place.admit(A)
        place.feed(A, "one")
        assert second.had == {A: ["one"]}


async def test_a_replica_that_cannot_start_at_first_stops_the_others() -> None:
    connector = MemoryConnector(budget_bytes=1 << 20)
    talk = [Mortal(connector), Mortal(connector)]
    talk[1].refusal = "no such model"
    said: list[StageEvent] = []
    async with asyncio.TaskGroup() as tasks:
        engine = ReplicatedEngine(
            core=StagePool(stage="talk", replicas=2, policy=QUICK, chance=lambda: 0.0),
            members=[Member(engine=one, life=one) for one in talk],
            connector=connector,
            tasks=tasks,
            clock=asyncio.get_running_loop().time,
        )
        with pytest.raises(StageError, match="no such model"):
            await engine.start(said.append)
    assert [one.stops for one in talk] == [1, 0]


async def test_members_are_as_many_as_replicas() -> None:
    async with asyncio.TaskGroup() as tasks:
        with pytest.raises(ConfigError, match="has 2 replicas and 0 engines"):
            ReplicatedEngine(
                core=StagePool(stage="talk", replicas=2, policy=QUICK, chance=lambda: 0.0),
                members=[],
                connector=MemoryConnector(budget_bytes=1),
                tasks=tasks,
                clock=asyncio.get_running_loop().time,
            )
