"""The server's side of an engine in another process: each request ends once, whatever the process says and when."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duplex.connector.base import Handle
from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Text
from duplex.engine.base import StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.engine.remote import RemoteEngine
from duplex.engine.wire import Abort, Submit, ToProcess, Update
from duplex.errors import ControlError, EngineDied, StageError, StateError
from duplex.session.fence import MAIN, Fence

FENCES = [Fence("s", 0, MAIN, epoch) for epoch in range(4)]


class Script:
    """A process that only writes down what it hears."""

    def __init__(self) -> None:
        self.running = False
        self.heard: list[ToProcess] = []
        self.error: ControlError | None = None

    def send(self, message: ToProcess) -> None:
        assert self.running
        if self.error is not None:
            raise self.error
        self.heard.append(message)

    async def start(self) -> None:
        if self.error is not None:
            raise StageError("cannot", stage="echo")
        self.running = True

    async def stop(self) -> None:
        self.running = False


class Rig:
    def __init__(self) -> None:
        self.process = Script()
        self.connector = MemoryConnector(budget_bytes=1 << 20)
        self.events: list[StageEvent] = []
        self.engine = RemoteEngine(
            stage="echo",
            process=self.process,
            connector=self.connector,
            on_start=self.process.start,
            on_stop=self.process.stop,
        )

    def start(self) -> None:
        asyncio.run(self.engine.start(self.events.append))

    def submit(self, fence: Fence) -> None:
        self.engine.submit(StageRequest(fence=fence, stage="echo"))

    def put(self, fence: Fence) -> Handle:
        return self.connector.put(fence, Text(text="x", start=0))

    def output(self, fence: Fence) -> None:
        self.engine.said(StageOutput(fence=fence, stage="echo", handle=self.put(fence)))

    def finished(self, fence: Fence) -> None:
        self.engine.said(StageFinished(fence=fence, stage="echo"))


class Machine(RuleBasedStateMachine):
    """The process may be late with anything; the model knows which requests live."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.rig.start()
        self.open: dict[Fence, bool] = {}
        self.expected = 0
        self.held = 0
        self.count = 0

    def fence(self, pick: int) -> Fence:
        """One of the newest fences, alive or not."""
        return Fence("s", 0, MAIN, max(0, self.count - pick))

    @rule()
    def submit(self) -> None:
        self.count += 1
        fence = Fence("s", 0, MAIN, self.count)
        self.rig.submit(fence)
        if self.rig.process.running:
            self.open[fence] = True
        else:
            self.expected += 1
            last = self.rig.events[-1]
            assert isinstance(last, StageFailed)
            assert isinstance(last.error, EngineDied)

    @rule(pick=st.integers(0, 5), final=st.booleans(), empty=st.booleans())
    def update(self, pick: int, final: bool, empty: bool) -> None:
        fence = self.fence(pick)
        heard = len(self.rig.process.heard)
        self.rig.engine.update(fence, None if empty else self.rig.put(fence), final=final)
        if self.open.get(fence):
            assert isinstance(self.rig.process.heard[-1], Update)
            self.open[fence] = not final
            self.held += not empty
        else:
            assert len(self.rig.process.heard) == heard

    @rule(pick=st.integers(0, 5))
    def abort(self, pick: int) -> None:
        fence, heard = self.fence(pick), len(self.rig.process.heard)
        self.rig.engine.abort(fence)
        assert (len(self.rig.process.heard) > heard) == (self.open.pop(fence, None) is not None)

    @rule(pick=st.integers(0, 5))
    def output(self, pick: int) -> None:
        fence = self.fence(pick)
        self.rig.output(fence)
        self.expected += fence in self.open
        self.held += fence in self.open

    @rule(pick=st.integers(0, 5), well=st.booleans())
    def ends(self, pick: int, well: bool) -> None:
        fence = self.fence(pick)
        if well:
            self.rig.finished(fence)
        else:
            self.rig.engine.said(StageFailed(fence=fence, stage="echo", error=StageError("no", stage="echo")))
        self.expected += self.open.pop(fence, None) is not None

    @precondition(lambda self: self.rig.process.running)
    @rule()
    def dies(self) -> None:
        self.rig.process.running = False
        self.rig.engine.fail("it ended (signal 9)")
        self.expected += len(self.open)
        self.open.clear()

    @precondition(lambda self: not self.rig.process.running)
    @rule()
    def lives_again(self) -> None:
        asyncio.run(self.rig.engine.restart())

    @invariant()
    def nothing_else_was_said_or_kept(self) -> None:
        assert len(self.rig.events) == self.expected
        assert self.rig.engine.active == len(self.open)
        assert len(self.rig.connector) == self.held

    def teardown(self) -> None:
        ends = [event.fence for event in self.rig.events if not isinstance(event, StageOutput)]
        assert len(ends) == len(set(ends))


TestMachine = Machine.TestCase


def test_what_is_said_to_the_process() -> None:
    rig = Rig()
    rig.start()
    fence = FENCES[0]
    rig.submit(fence)
    rig.engine.update(fence, None, final=True)
    rig.engine.update(fence, None, final=True)
    rig.engine.abort(fence)
    rig.engine.abort(fence)
    assert [type(message) for message in rig.process.heard] == [Submit, Update, Abort]


def test_at_its_death_only_those_that_live_fail() -> None:
    rig = Rig()
    rig.start()
    rig.submit(FENCES[0])
    rig.submit(FENCES[1])
    rig.engine.abort(FENCES[0])
    rig.engine.fail("gone")
    (event,) = rig.events
    assert isinstance(event, StageFailed)
    assert event.error.message == "gone; what it was working on is lost and can be asked for again"


def test_a_start_that_fails_leaves_it_stopped() -> None:
    rig = Rig()
    rig.process.error = ControlError("x")
    with pytest.raises(StageError):
        rig.start()
    assert not rig.engine.started
    with pytest.raises(StateError):
        rig.submit(FENCES[0])
    with pytest.raises(StateError):
        asyncio.run(rig.engine.restart())


def test_a_request_that_cannot_be_sent_fails_alone() -> None:
    rig = Rig()
    rig.start()
    rig.process.error = ControlError("too long")
    rig.submit(FENCES[0])
    (event,) = rig.events
    assert isinstance(event, StageFailed)
    assert event.error.message == "too long"
    assert rig.engine.active == 0


def test_after_a_stop_nobody_is_told_anything() -> None:
    rig = Rig()
    rig.start()
    rig.submit(FENCES[0])
    with pytest.raises(StateError, match="has a request already"):
        rig.submit(FENCES[0])
    asyncio.run(rig.engine.stop())
    rig.output(FENCES[0])
    rig.finished(FENCES[0])
    rig.engine.fail("gone")
    assert rig.events == []
    assert len(rig.connector) == 0


def test_what_was_spent_is_the_last_that_was_told() -> None:
    rig = Rig()
    rig.engine.has_spent("s", 1.5)
    rig.engine.has_spent("s", 2.5)
    assert rig.engine.spent("s") == 2.5
    rig.engine.forget("s")
    assert rig.engine.spent("s") == 0
