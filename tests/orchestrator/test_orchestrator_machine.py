"""The orchestrator against an independent account, over every interleaving of admission, chunks, ends and failures."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from duplex.connector.base import Handle
from duplex.connector.payload import Kind
from duplex.engine.base import StageFailed, StageFinished, StageOutput
from duplex.errors import StageError
from duplex.orchestrator.core import (
    Abort,
    AbortStage,
    Admit,
    Deliver,
    Discard,
    Effect,
    Event,
    Input,
    Orchestrator,
    RequestCompleted,
    RequestFailed,
    ShareHandle,
    SubmitStage,
    UpdateStage,
)
from duplex.orchestrator.graph import StageGraph
from duplex.session.fence import MAIN, Fence
from tests.orchestrator.test_graph import SOUNDS, TALK, THINK, WAV, WRITES

CAPACITY = 3
KINDS = {"think": Kind.TEXT, "talk": Kind.SPECTRUM, "code2wav": Kind.VOICED}
PLANS = [("think", "talk", "code2wav"), ("think",), ("talk", "code2wav")]
FINALS = {"think", "code2wav"}
TARGETS = {"think": "talk", "talk": "code2wav"}
MOST_PARKED = 2


class OrchestratorMachine(RuleBasedStateMachine):
    """Three requests' worth of stages that answer in any order, early, late and twice, over edges of both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.held_back: set[str] = set()
        self.parked: dict[tuple[Fence, str], list[int]] = {}
        self.epoch = 0
        self.alive: dict[Fence, tuple[str, ...]] = {}
        self.ended: set[Fence] = set()
        self.submitted: set[tuple[Fence, str]] = set()
        self.running: set[tuple[Fence, str]] = set()
        self.sealed: set[tuple[Fence, str]] = set()
        self.finished: set[tuple[Fence, str]] = set()
        self.readers: dict[int, int] = {}
        self.expected: dict[int, int] = {}
        self.keys = 0

    @initialize(writes=st.booleans(), sounds=st.booleans())
    def begin(self, writes: bool, sounds: bool) -> None:
        edges = [replace(WRITES, async_chunk=writes), replace(SOUNDS, async_chunk=sounds)]
        self.held_back = {edge.target for edge in edges if not edge.async_chunk}
        graph = StageGraph(name="g", stages=[THINK, TALK, WAV], edges=edges)
        self.core = Orchestrator(graph, capacity=CAPACITY, most_parked=MOST_PARKED)

    def do(self, event: Event) -> list[Effect]:
        effects = self.core.receive(event)
        for effect in effects:
            self.check(effect)
        return effects

    def check(self, effect: Effect) -> None:
        match effect:
            case SubmitStage(request=request):
                one = (request.fence, request.stage)
                assert one not in self.submitted, "a stage is submitted once"
                self.submitted.add(one)
                self.running.add(one)
            case UpdateStage(fence=fence, stage=stage, handle=handle, last=last):
                assert (fence, stage) in self.running, "input for a stage that is not at work"
                assert (fence, stage) not in self.sealed, "input after the last"
                if last:
                    self.sealed.add((fence, stage))
                if handle is not None:
                    assert handle.fence == fence, "a chunk of one turn went to another"
                    self.readers[handle.key] = self.readers.get(handle.key, 0) + 1
                    if handle.kind is not Kind.PROMPT and stage in self.held_back:
                        maker = next(source for source, target in TARGETS.items() if target == stage)
                        assert (fence, maker) in self.finished, "a chunk that was to wait has not"
                        assert self.parked[fence, stage].pop(0) == handle.key, "parked chunks go on in their order"
            case AbortStage(fence=fence, stage=stage):
                assert (fence, stage) in self.running, "aborted twice, or after its end"
                self.running.discard((fence, stage))
            case Deliver(fence=fence, stage=stage, handle=handle):
                assert fence not in self.ended, "delivered after the end"
                assert handle.fence == fence
                assert stage in FINALS
                self.readers[handle.key] = self.readers.get(handle.key, 0) + 1
            case ShareHandle(handle=handle, readers=readers):
                assert self.readers.get(handle.key, 0) == 0, "shared only after somebody has been told"
                self.expected[handle.key] = readers
            case Discard(handle=handle):
                for parked in self.parked.values():
                    if handle.key in parked:  # It takes the place of the reader that it waited for.
                        parked.remove(handle.key)
                        self.readers[handle.key] = self.readers.get(handle.key, 0) + 1
                        break
                else:
                    assert self.readers.get(handle.key, 0) == 0, "thrown away although it has a reader"
                    self.readers[handle.key] = 1
            case RequestCompleted(fence=fence):
                assert fence not in self.ended, "ended twice"
                finals = FINALS & set(self.alive[fence])
                done = {stage for one, stage in self.finished if one == fence}
                assert finals <= done, "complete before every final output was"
                self.end(fence)
            case RequestFailed(fence=fence):
                assert fence not in self.ended, "ended twice"
                self.end(fence)

    def end(self, fence: Fence) -> None:
        self.ended.add(fence)
        self.alive.pop(fence, None)
        assert not any(one == fence for one, _ in self.running), "ended with a stage still at work"

    def fences(self, *, live: int = 8) -> list[Fence]:
        """Every fence there has been, and one to come; each `live` one more often, as what matters happens to them."""
        return [*sorted(self.alive) * live, *(Fence("s", 0, MAIN, epoch) for epoch in range(self.epoch + 2))]

    def handle(self, fence: Fence, kind: Kind) -> Handle:
        self.keys += 1
        return Handle(fence=fence, kind=kind, key=self.keys, nbytes=1)

    def settle(self, handle: Handle) -> None:
        """Every payload has exactly as many readers as its connector was told: none leaks, none is taken twice."""
        waiting = sum(handle.key in parked for parked in self.parked.values())
        assert self.readers.get(handle.key, 0) + waiting == self.expected.get(handle.key, 1)

    @rule(plan=st.sampled_from(PLANS))
    def admit(self, plan: tuple[str, ...]) -> None:
        self.epoch += 1
        fence = Fence("s", 0, MAIN, self.epoch)
        room = len(self.alive) < CAPACITY
        if room:
            self.alive[fence] = plan
        effects = self.do(Admit(fence=fence, stages=plan))
        if room:
            assert [effect.request.stage for effect in effects if isinstance(effect, SubmitStage)] == list(
                reversed(plan)
            ), "every stage is submitted at once, downstream first"
        else:
            assert [type(effect) for effect in effects] == [RequestFailed]

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def admit_again(self, data: st.DataObject) -> None:
        fence = data.draw(st.sampled_from(sorted(self.alive)))
        assert self.do(Admit(fence=fence, stages=("think",))) == []

    @rule(data=st.data(), stage=st.sampled_from(["think", "talk"]), last=st.booleans())
    def input(self, data: st.DataObject, stage: str, last: bool) -> None:
        fence = data.draw(st.sampled_from(self.fences()))
        handle = self.handle(fence, Kind.PROMPT)
        wanted = stage in self.alive.get(fence, ()) and (fence, stage) in self.running
        wanted = wanted and (fence, stage) not in self.sealed
        before = sum(self.core.dropped.values())
        self.do(Input(fence=fence, stage=stage, handle=handle, last=last))
        self.settle(handle)
        assert sum(self.core.dropped.values()) == before + (0 if wanted else 1), "late input is counted"

    @rule(data=st.data(), stage=st.sampled_from(sorted(KINDS)))
    def output(self, data: st.DataObject, stage: str) -> None:
        self.makes(data.draw(st.sampled_from(self.fences())), stage)

    @rule(data=st.data(), chunks=st.integers(0, 4), ends=st.booleans())
    def work(self, data: st.DataObject, chunks: int, ends: bool) -> None:
        """A stage that is at work does what it should; there is one."""
        if not self.running:
            self.admit(data.draw(st.sampled_from(PLANS)))
        fence, stage = data.draw(st.sampled_from(sorted(self.running)))
        for _ in range(chunks):
            self.makes(fence, stage)
        if ends:
            self.ends(fence, stage, "stop")

    @rule(data=st.data(), chunks=st.integers(0, 2))
    def more_work(self, data: st.DataObject, chunks: int) -> None:
        """Twice as likely as anything that ends a request."""
        self.work(data, chunks, True)

    def makes(self, fence: Fence, stage: str) -> None:
        handle = self.handle(fence, KINDS[stage])
        live = (fence, stage) in self.running
        target = TARGETS.get(stage, "")
        parks = live and target in self.held_back and (fence, target) in self.running
        parks = parks and (fence, target) not in self.sealed
        parked = self.parked.setdefault((fence, target), []) if parks else []
        full = len(parked) == MOST_PARKED
        if parks and not full:
            parked.append(handle.key)
        effects = self.do(StageOutput(fence=fence, stage=stage, handle=handle))
        self.settle(handle)
        assert any(isinstance(effect, RequestFailed) for effect in effects) == full, "no more is parked than may be"
        assert any(isinstance(effect, Deliver) for effect in effects) == (live and stage in FINALS and not full)

    @rule(data=st.data(), stage=st.sampled_from(sorted(KINDS)), reason=st.sampled_from(["stop", "length"]))
    def finish(self, data: st.DataObject, stage: str, reason: str) -> None:
        self.ends(data.draw(st.sampled_from(self.fences())), stage, reason)

    def ends(self, fence: Fence, stage: str, reason: str) -> None:
        if (fence, stage) in self.running:
            self.finished.add((fence, stage))
            self.running.discard((fence, stage))
        was_alive = fence in self.alive
        effects = self.do(StageFinished(fence=fence, stage=stage, reason=reason, output_tokens=1))
        finals = FINALS & set(self.alive.get(fence, ()))
        if was_alive and fence in self.alive:
            done = {name for one, name in self.finished if one == fence}
            assert not finals <= done, "every final output is there, and the request is not complete"
        for effect in effects:
            if isinstance(effect, RequestCompleted):
                assert effect.output_tokens == sum(1 for one, _ in self.finished if one == fence)

    @rule(data=st.data(), stage=st.sampled_from(sorted(KINDS)))
    def fail(self, data: st.DataObject, stage: str) -> None:
        fence = data.draw(st.sampled_from(self.fences(live=1)))
        others = set(self.alive) - {fence}
        was_alive = fence in self.alive
        # A stage that fails is gone, whether or not it is told to stop.
        effects = self.do(StageFailed(fence=fence, stage=stage, error=StageError("broke", stage=stage)))
        assert any(isinstance(effect, RequestFailed) for effect in effects) == was_alive
        assert set(self.alive) == others, "a failure ends its own request and no other"

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        fence = data.draw(st.sampled_from(self.fences(live=1)))
        effects = self.do(Abort(fence=fence))
        quiet = all(isinstance(effect, AbortStage | Discard) for effect in effects)
        assert quiet, "an aborted request says nothing more"
        if fence in self.alive:
            self.end(fence)

    @invariant()
    def holds_what_is_alive(self) -> None:
        assert len(self.core) == len(self.alive) <= CAPACITY
        assert all(fence in self.core for fence in self.alive)

    @invariant()
    def parks_what_may_still_be_read(self) -> None:
        for (fence, stage), parked in self.parked.items():
            assert not parked or ((fence, stage) in self.running and (fence, stage) not in self.sealed)

    @invariant()
    def parks_nothing_that_is_whole(self) -> None:
        for source, target in TARGETS.items():
            for fence in self.alive:
                assert (fence, source) not in self.finished or not self.parked.get((fence, target))


TestOrchestrator = OrchestratorMachine.TestCase
TestOrchestrator.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
