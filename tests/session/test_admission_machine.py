"""Admission and host together, on a virtual clock: every order of arriving, giving up, failing and cleaning up.

The checks are an account of their own, kept from outside: what clients were told, and which releases have succeeded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Kind
from duplex.engine.base import Lane
from duplex.errors import AdmissionRefused
from duplex.orchestrator.core import Orchestrator
from duplex.orchestrator.graph import StageGraph, StageSpec
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.orchestrator.trace import TraceLog
from duplex.session.admission import REFRESH_S, Admission
from duplex.session.budget import Budget
from duplex.session.events import Close, CreateItem
from duplex.session.host import Host
from duplex.session.item import Item, Part
from duplex.session.notices import Closed, ItemDone, Notice, Opened, Queued
from duplex.session.places import HELD, AdmissionEffect, AdmissionEvent, Admit
from duplex.session.port import Audio, SessionPort
from duplex.session.price import Price
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.tariff import Tariff
from tests.session.engines import ScriptedEngine, ignores
from tests.session.virtual import VirtualLoop

PLACES, QUEUE, WAIT_S = 3, 3, 11.0
GRACE_S = 8.0
THINKING = 1.0


class Watched(Admission):
    """Admission as it is; whom it admits is noted, and the sum of what is then taken is checked from outside."""

    admitted: tuple[str, ...] = ()

    def receive(self, event: AdmissionEvent, now: float) -> list[AdmissionEffect]:
        return self.checked(super().receive(event, now))

    def wake(self, now: float) -> list[AdmissionEffect]:
        return self.checked(super().wake(now))

    def checked(self, effects: list[AdmissionEffect]) -> list[AdmissionEffect]:
        if admitted := tuple(effect.session_id for effect in effects if isinstance(effect, Admit)):
            self.admitted += admitted
            held = sum(place.state in HELD for place in self.places.values())
            each = self.tariff.price.compute["think"]
            assert held <= PLACES
            assert held == 1 or held * each <= THINKING + 1e-6, "the budget is exceeded"
        return effects


class Crash(Exception):
    """A transport has failed."""


@dataclass(eq=False)
class Client:
    """Whoever wants a session, and what became of it."""

    number: int
    glances: bool = False
    task: asyncio.Task[None] | None = None
    port: SessionPort | None = None
    entered_s: float = 0.0
    told_s: float = 0.0
    told: list[Notice | Audio] = field(default_factory=list)
    refused: bool = False
    sent: int = 0
    sending: asyncio.Task[None] | None = None
    crash: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()

    @property
    def opened(self) -> bool:
        return any(isinstance(told, Opened) for told in self.told)

    @property
    def dismissed(self) -> bool:
        return any(isinstance(told, Closed) for told in self.told) and not self.opened

    @property
    def waits(self) -> bool:
        return self.port is not None and not self.done and not self.opened and not self.dismissed

    @property
    def active(self) -> bool:
        return self.opened and not self.done


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.connector = MemoryConnector(budget_bytes=1 << 20)
        self.clients: list[Client] = []
        self.entered: list[Client] = []
        self.failures = 0
        self.stuck: set[str] = set()
        self.released: Counter[str] = Counter()
        self.settled = True
        names = ("listen", "endpoint", "hear", "think", "talk", "code2wav")
        kinds = frozenset(Kind)
        graph = StageGraph(
            name="silent",
            stages=[
                StageSpec(name=name, lifetime="turn", accepts=kinds, gives=kinds, final_output=True) for name in names
            ],
            edges=[],
        )
        engines = {name: ScriptedEngine(stage=name, connector=self.connector, react=ignores) for name in names}
        self.orchestrator = OrchestratorRunner(
            core=Orchestrator(graph, capacity=64),
            engines=engines,
            connector=self.connector,
            clock=self.loop.time,
            trace=TraceLog(capacity=8),
        )
        lanes = {"think": Lane(most=THINKING, weights={"think": 1.0})}
        self.admission = Watched(
            budget=Budget(sessions=PLACES, lanes=lanes, headroom=0.0),
            tariff=Tariff(declared=Price(compute={"think": 0.3})),
            queue_length=QUEUE,
            queue_wait_s=WAIT_S,
        )
        self.host = Host(
            orchestrator=self.orchestrator,
            connector=self.connector,
            settings=SessionSettings(),
            limits=SessionLimits(),
            admission=self.admission,
            turns=8,
            mailbox_events=8,
            grace_s=GRACE_S,
            clock=self.loop.time,
            compute=lambda session_id: {},
            on_release=self.release,
        )
        self.loop.run_until_complete(self.orchestrator.start())
        self.running = self.loop.create_task(self.host.run())
        self.loop.settle()

    # The world --------------------------------------------------------------------------------

    def release(self, session_id: str) -> None:
        assert not self.released[session_id], "released twice"
        if self.failures:
            self.failures -= 1
            self.stuck.add(session_id)
            raise OSError("the engine does not answer")
        self.stuck.discard(session_id)
        self.released[session_id] += 1

    async def visit(self, client: Client) -> None:
        try:
            async with self.host.open() as port:
                client.port, client.entered_s = port, self.loop.time()
                self.entered.append(client)
                client.told_s = self.loop.time()
                if client.glances:
                    return
                crash = asyncio.ensure_future(client.crash.wait())
                try:
                    while True:
                        news = asyncio.ensure_future(port.receive())
                        await asyncio.wait((news, crash), return_when=asyncio.FIRST_COMPLETED)
                        if crash.done():
                            news.cancel()
                            raise Crash
                        if (told := news.result()) is None:
                            return
                        self.hear(client, told)
                finally:
                    crash.cancel()
        except AdmissionRefused:
            client.refused = True
        except BaseExceptionGroup as group:
            _, rest = group.split(Crash)
            if rest is not None:
                raise rest from None

    def hear(self, client: Client, told: Notice | Audio) -> None:
        client.told.append(told)
        client.told_s = self.loop.time()
        assert not (isinstance(told, Queued) and client.opened), "a position after the session had begun"
        if client.dismissed and told.reason == "queue_timeout":  # type: ignore[union-attr]
            assert self.loop.time() >= client.entered_s + WAIT_S

    def fits(self, held: int) -> bool:
        """Whether one more than `held` may be there."""
        each = self.admission.tariff.price.compute["think"]
        return held < PLACES and (not held or (held + 1) * each <= THINKING + 1e-6)

    @property
    def held(self) -> int:
        return sum(client.active for client in self.clients) + len(self.stuck)

    @property
    def living(self) -> list[Client]:
        return [client for client in self.clients if not client.done]

    # What can happen --------------------------------------------------------------------------

    @rule(count=st.integers(1, 5), glance=st.integers(0, 8))
    def arrive(self, count: int, glance: int) -> None:
        """`glance`: which of them, if any, goes away at once, before there can be a session."""
        for number in range(count):
            client = Client(number=len(self.clients), glances=number + 1 == glance)
            self.clients.append(client)
            client.task = self.loop.create_task(self.visit(client))
        self.settled = False

    @rule(ticks=st.integers(1, 4))
    def step(self, ticks: int) -> None:
        for _ in range(ticks):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    @rule()
    def settle(self) -> None:
        self.loop.settle()
        self.settled = True

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living))
        assert client.task is not None
        client.task.cancel()
        self.settled = False

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.living)).crash.set()
        self.settled = False

    @precondition(lambda self: any(client.port is not None for client in self.living))
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """Also in the queue: the event waits there for its session."""
        client = data.draw(st.sampled_from([client for client in self.living if client.port is not None]))
        self.send(client, Close(reason="client"))

    @precondition(lambda self: any(client.port is not None for client in self.living))
    @rule(data=st.data())
    def say(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in self.living if client.port is not None]))
        if any(isinstance(told, Closed) for told in client.told):
            return
        client.sent += 1
        text = Part(kind="text", text=str(client.sent))
        self.send(client, CreateItem(item=Item(item_id="", role="user", status="completed", parts=(text,))))

    def send(self, client: Client, event: Close | CreateItem) -> None:
        """As a transport does it: one event after the other."""
        port, before = client.port, client.sending
        assert port is not None

        async def send() -> None:
            if before is not None:
                await before
            await port.send(event)

        client.sending = self.loop.create_task(send())
        self.settled = False

    @rule(times=st.integers(1, 5))
    def fail_releases(self, times: int) -> None:
        self.failures = times

    @rule(seconds=st.sampled_from([0.05, 0.3, 2.0, 4.9, 7.0, 25.0]))
    def advance(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.settled = True

    @rule(think=st.sampled_from([0.34, 0.6]))
    def grow_dearer(self, think: float) -> None:
        self.admission.tariff.learn(compute={"think": think}, nbytes={})

    # What must hold ---------------------------------------------------------------------------

    @invariant()
    def the_books_agree(self) -> None:
        self.admission.check_integrity()
        assert len(self.admission) <= PLACES
        assert self.admission.waiting <= QUEUE

    @invariant()
    def nobody_overtakes(self) -> None:
        arrived = [client.port.session_id for client in self.entered if client.port is not None]
        admitted = self.admission.admitted
        assert [session_id for session_id in arrived if session_id in admitted] == list(admitted)
        assert {client.port.session_id for client in self.entered if client.port and client.opened} <= set(admitted)

    @invariant()
    def places_are_neither_lost_nor_given_twice(self) -> None:
        if not self.settled:
            return
        assert len(self.admission) == self.held
        queue = [client for client in self.entered if client.waits]
        assert self.admission.waiting == len(queue)
        if queue:
            assert not self.fits(self.held), "somebody waits for a place that is there"

    @invariant()
    def everyone_who_waits_knows_the_number(self) -> None:
        if not self.settled:
            return
        now = self.loop.time()
        for position, client in enumerate((client for client in self.entered if client.waits), start=1):
            last = client.told[-1]
            assert isinstance(last, Queued)
            assert last.position == position
            assert last.eta_s is None or last.eta_s >= 0
            assert now - client.told_s <= REFRESH_S + 1e-6
            assert now - client.entered_s < WAIT_S

    @invariant()
    def nobody_is_refused_without_need(self) -> None:
        for client in self.clients:
            assert not (client.refused and client.port is not None)
        if self.settled and self.admission.waiting < QUEUE:
            assert self.host.refusal() is None

    def teardown(self) -> None:
        self.loop.settle()
        for client in self.clients:
            if client.opened and not client.done and not any(isinstance(told, Closed) for told in client.told):
                said = [told.item.text for told in client.told if isinstance(told, ItemDone)]
                assert said == [str(number + 1) for number in range(client.sent)], "input was lost or turned around"
        self.failures = min(self.failures, 3)
        for client in self.clients:
            assert client.task is not None
            client.task.cancel()
        self.loop.advance(200)
        self.loop.call_soon(self.host.close)
        self.loop.settle()
        assert self.running.done()
        assert not self.stuck
        assert len(self.admission) == 0
        assert self.admission.places == {}
        assert self.admission.deadline is None
        assert len(self.connector) == len(self.orchestrator.core) == 0
        assert sum(self.released.values()) == self.host.counters["sessions_opened"]
        assert not asyncio.all_tasks(self.loop), "a task was left"
        with suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.orchestrator.stop())
        self.loop.close()


TestAdmissionMachine = Machine.TestCase
TestAdmissionMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAdmissionMachine = pytest.mark.timeout(120)(TestAdmissionMachine)
