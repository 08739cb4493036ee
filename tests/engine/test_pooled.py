"""The pooled engine: a scripted worker, driven by hand on one thread, by random interleavings, and by threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duplex.connector.base import Handle
from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Kind, Mark, MarkKind, Payload, Text
from duplex.engine.base import StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.engine.pool import Job, WorkerPool
from duplex.engine.pooled import PooledEngine
from duplex.engine.worker import Emit, Usage, Waiting
from duplex.errors import PeerGone, PoolFull, StageError, StaleFence, StateError
from duplex.session.fence import Fence

WAIT_S = 10


class HandPool(WorkerPool):
    """A pool without threads: the test runs the jobs, also from inside other jobs, as a second thread would."""

    def __init__(self, capacity: int = 1000) -> None:
        self.jobs: list[Job] = []
        self.capacity = capacity

    def submit(self, priority: int, job: Job) -> None:
        if len(self.jobs) >= self.capacity:
            raise PoolFull("full")
        self.jobs.append(job)

    def run(self, index: int = 0) -> None:
        self.jobs.pop(index)()

    def run_all(self) -> None:
        while self.jobs:
            self.run()


@dataclass
class ScriptedWorker:
    """Does what its input says: `echo` it, `fail`, go `stale`, or run the test's hook `during` its work."""

    request: StageRequest
    hook: Callable[[], None] | None = None
    fed: list[str] = field(default_factory=list)
    closed: int = 0
    cancelled: int = 0
    entered: bool = False
    refused: bool = False

    def feed(self, payload: Payload, emit: Emit) -> None:
        assert isinstance(payload, Text)
        self._enter()
        self.fed.append(payload.text)
        verb = payload.text.split()[0]
        if verb.startswith("during") and self.hook is not None:
            self.hook()
        try:
            if verb in ("fail", "during-fail"):
                raise ZeroDivisionError("the user's secret words")
            if verb == "stage-error":
                raise StageError("out of places", stage="echo")
            if verb == "stale":
                raise StaleFence("over")
            if verb == "peer-gone":
                raise PeerGone("process 2 has ended")
            self.refused = not emit(Text(text=payload.text, start=payload.start))
        finally:
            self.entered = False

    def finish(self, emit: Emit) -> Usage:
        self._enter()
        self.refused = not emit(Text(text="end", start=-1))
        self.entered = False
        return Usage(output_tokens=len(self.fed))

    def cancel(self) -> None:
        assert self.entered
        assert not self.closed
        self.cancelled += 1

    def close(self) -> None:
        assert not self.entered, "closed while it runs"
        self.closed += 1

    def _enter(self) -> None:
        assert not self.entered, "two jobs of one request at a time"
        assert not self.closed, "run after close"
        assert not self.refused, "run after emit said that the request is over"
        self.entered = True


class Bench:
    """An engine on a pool that is worked by hand, its workers, and what it said."""

    def __init__(
        self,
        *,
        max_requests: int = 8,
        max_inbox: int = 4,
        capacity: int = 1000,
        connector: MemoryConnector | None = None,
        worker: type[ScriptedWorker] = ScriptedWorker,
    ) -> None:
        self.worker = worker
        self.pool = HandPool(capacity)
        self.connector = MemoryConnector(budget_bytes=1 << 20) if connector is None else connector
        self.said: list[StageEvent] = []
        self.workers: list[ScriptedWorker] = []
        self.hook: Callable[[], None] | None = None
        self.engine = PooledEngine(
            stage="echo",
            factory=self.make,
            connector=self.connector,
            pool=self.pool,
            priority=1,
            load=None,
            max_requests=max_requests,
            max_inbox=max_inbox,
        )
        asyncio.run(self.engine.start(self.said.append))

    def make(self, request: StageRequest) -> ScriptedWorker:
        worker = self.worker(request, hook=lambda: self.hook() if self.hook else None)
        self.workers.append(worker)
        return worker

    def submit(self, fence: Fence) -> None:
        self.engine.submit(StageRequest(fence=fence, stage="echo"))

    def update(self, fence: Fence, text: str, *, final: bool = False, start: int = 0) -> None:
        self.engine.update(fence, self.connector.put(fence, Text(text=text, start=start)), final=final)

    def said_for(self, fence: Fence) -> list[StageEvent]:
        return [event for event in self.said if event.fence == fence]

    def texts(self, fence: Fence) -> list[str]:
        """Takes the outputs announced for a fence."""
        outputs = [event.handle for event in self.said_for(fence) if isinstance(event, StageOutput)]
        taken = [self.connector.take(handle) for handle in outputs]
        return [payload.text for payload in taken if isinstance(payload, Text)]


def fence(number: int, session: str = "s") -> Fence:
    return Fence(session_id=session, generation=1, lane="main", epoch=number)


def test_runs_a_request_from_submit_to_finish_under_its_own_fence() -> None:
    bench = Bench()
    bench.submit(fence(1))
    bench.update(fence(1), "echo a")
    bench.update(fence(1), "echo b", final=True)
    bench.pool.run_all()
    assert bench.said[-1] == StageFinished(fence=fence(1), stage="echo", output_tokens=2)
    assert [event.handle.fence for event in bench.said if isinstance(event, StageOutput)] == [fence(1)] * 3
    assert bench.texts(fence(1)) == ["echo a", "echo b", "end"]
    assert [worker.closed for worker in bench.workers] == [1]
    assert bench.engine.active == 0
    assert len(bench.connector) == 0


def test_each_session_is_charged_the_time_of_its_own_thread_only() -> None:
    bench = Bench()

    def work() -> None:
        began = time.thread_time()
        while time.thread_time() - began < 0.02:
            pass

    bench.hook = work
    bench.submit(fence(1, "busy"))
    bench.submit(fence(1, "idle"))
    for epoch in (1, 1, 2):
        if epoch == 2:
            bench.submit(fence(2, "busy"))
        bench.update(fence(epoch, "busy"), "during", final=epoch == 2)
    bench.pool.run_all()
    assert 0.06 <= bench.engine.spent("busy") < 0.2
    assert 0.0 < bench.engine.spent("idle") < 0.02
    bench.hook = lambda: time.sleep(0.05)
    before = bench.engine.spent("idle")
    bench.update(fence(1, "idle"), "during")
    bench.pool.run_all()
    assert bench.engine.spent("idle") - before < 0.02, "sleeping is no work"


def test_a_session_that_is_forgotten_leaves_nothing_even_if_it_still_runs() -> None:
    bench = Bench()
    bench.hook = lambda: bench.engine.forget("s")
    bench.submit(fence(1))
    bench.update(fence(1), "during")
    bench.pool.run_all()
    assert bench.engine.spent("s") == 0
    assert bench.engine._spent == {}
    bench.engine.forget("s")


def test_requests_take_turns_chunk_by_chunk() -> None:
    bench = Bench()
    for number in (1, 2):
        bench.submit(fence(number))
    bench.pool.run_all()
    for text in ("a", "b", "c"):
        bench.update(fence(1), text)
    bench.update(fence(2), "x")
    bench.pool.run_all()
    order = [event.fence.epoch for event in bench.said]
    assert order == [1, 2, 1, 1]


def test_a_failing_worker_fails_its_request_alone_and_tells_nothing_of_the_user() -> None:
    bench = Bench()
    for number in (1, 2):
        bench.submit(fence(number))
    bench.update(fence(1), "fail")
    bench.update(fence(1), "echo later")
    bench.update(fence(2), "echo", final=True)
    bench.pool.run_all()
    (failed,) = bench.said_for(fence(1))
    assert isinstance(failed, StageFailed)
    assert str(failed.error) == "echo: failed with ZeroDivisionError"
    assert bench.texts(fence(2)) == ["echo", "end"]
    assert [worker.closed for worker in bench.workers] == [1, 1]
    assert bench.engine.active == 0
    assert len(bench.connector) == 0


def test_a_stage_error_of_the_worker_is_passed_on_as_it_is() -> None:
    bench = Bench()
    bench.submit(fence(1))
    bench.update(fence(1), "stage-error")
    bench.pool.run_all()
    (failed,) = bench.said
    assert isinstance(failed, StageFailed)
    assert failed.error.message == "out of places"


def test_input_that_was_in_a_process_which_has_ended_fails_the_request() -> None:
    bench = Bench()
    bench.submit(fence(1))
    bench.update(fence(1), "peer-gone")
    bench.pool.run_all()
    (failed,) = bench.said
    assert isinstance(failed, StageFailed)
    assert failed.error.message == "process 2 has ended"


def test_a_factory_that_raises_fails_the_request() -> None:
    bench = Bench()

    def refuse(request: StageRequest) -> ScriptedWorker:
        raise ValueError

    bench.engine._factory = refuse
    bench.submit(fence(1))
    bench.pool.run_all()
    assert [type(event) for event in bench.said] == [StageFailed]
    assert bench.engine.active == 0


@pytest.mark.parametrize("how", ["retired", "stale", "gone"])
def test_a_turn_that_is_over_ends_in_silence(how: str) -> None:
    bench = Bench()
    bench.submit(fence(1))
    bench.update(fence(1), "stale" if how == "stale" else "echo")
    if how == "retired":
        bench.connector.retire(fence(1))
    elif how == "gone":
        bench.connector.forget("s")
    bench.pool.run_all()
    assert bench.said == []
    assert [worker.closed for worker in bench.workers] == [1]
    assert bench.engine.active == 0


def test_a_fence_that_is_retired_while_its_worker_runs_gets_no_output_announced() -> None:
    bench = Bench()

    def retire() -> None:
        bench.connector.retire(fence(1))

    bench.hook = retire
    bench.submit(fence(1))
    bench.update(fence(1), "during", final=True)
    bench.pool.run_all()
    assert bench.workers[0].refused
    assert bench.said == []
    assert bench.workers[0].closed == 1


def test_an_abort_while_the_worker_runs_cancels_it_and_drops_its_output() -> None:
    bench = Bench()
    bench.hook = lambda: bench.engine.abort(fence(1))
    bench.submit(fence(1))
    bench.update(fence(1), "during")
    bench.update(fence(1), "echo")
    bench.pool.run_all()
    assert bench.workers[0].cancelled == 1
    assert bench.workers[0].fed == ["during"]
    assert bench.workers[0].refused
    assert bench.workers[0].closed == 1
    assert bench.said == []
    assert len(bench.connector) == 0


def test_a_failure_after_the_abort_is_not_told() -> None:
    bench = Bench()
    bench.hook = lambda: bench.engine.abort(fence(1))
    bench.submit(fence(1))
    bench.update(fence(1), "during-fail")
    bench.pool.run_all()
    assert bench.said == []
    assert bench.workers[0].closed == 1


def test_an_abort_between_the_put_and_the_word_about_it_takes_the_output_back() -> None:
    class Racing(MemoryConnector):
        def put(self, fence: Fence, payload: Payload) -> Handle:
            handle = super().put(fence, payload)
            if self.armed:
                bench.engine.abort(fence)
            return handle

        armed = False

    racing = Racing(budget_bytes=1000)
    bench = Bench(connector=racing)
    bench.submit(fence(1))
    bench.update(fence(1), "echo")
    racing.armed = True
    bench.pool.run_all()
    assert bench.workers[0].refused
    assert bench.said == []
    assert len(racing) == 0


class Dreamer(ScriptedWorker):
    """Uses its free time, and asks what waits."""

    def idle(self, emit: Emit, waiting: Waiting) -> None:
        self._enter()
        if self.hook is not None:
            self.hook()
        answers = [kind.value for kind in (Kind.MARK, Kind.TEXT) if waiting(kind)]
        self.refused = not emit(Text(text=" ".join(["idle", *answers]), start=0))
        self.entered = False


def test_a_speculative_worker_gets_time_only_where_no_input_waits() -> None:
    bench = Bench(worker=Dreamer)
    bench.submit(fence(1))
    bench.update(fence(1), "echo a")
    bench.update(fence(1), "echo b")
    bench.pool.run_all()
    bench.update(fence(1), "echo c", final=True)
    bench.pool.run_all()
    assert bench.texts(fence(1)) == ["echo a", "echo b", "idle", "echo c", "end"]


@pytest.mark.parametrize(
    ("meanwhile", "told"),
    [("text", ["idle text"]), ("mark", ["idle mark"]), ("final", ["idle mark text"]), ("abort", [])],
)
def test_a_speculative_worker_is_told_what_came_meanwhile(meanwhile: str, told: list[str]) -> None:
    bench = Bench(worker=Dreamer)

    def hook() -> None:
        bench.hook = None
        if meanwhile == "text":
            bench.update(fence(1), "echo late")
        elif meanwhile == "mark":
            mark = bench.connector.put(fence(1), Mark(mark=MarkKind.PAUSE, start=0, end=1))
            bench.engine.update(fence(1), mark, final=False)
        elif meanwhile == "final":
            bench.engine.update(fence(1), None, final=True)
        else:
            bench.engine.abort(fence(1))

    bench.hook = hook
    bench.submit(fence(1))
    bench.update(fence(1), "echo")
    bench.pool.run()
    announced = len(bench.said_for(fence(1)))
    assert [text for text in bench.texts(fence(1)) if text.startswith("idle")] == told
    assert announced == 1 + len(told)
    assert bench.workers[0].cancelled == (meanwhile == "abort")


def test_an_idle_request_is_closed_by_a_job_of_its_own_when_aborted() -> None:
    bench = Bench()
    bench.submit(fence(1))
    bench.pool.run_all()
    bench.engine.abort(fence(1))
    bench.engine.abort(fence(1))
    assert bench.engine.active == 1
    bench.pool.run_all()
    assert bench.workers[0].closed == 1
    assert bench.workers[0].cancelled == 0
    assert bench.engine.active == 0


def test_a_full_inbox_fails_the_request_once_and_gives_its_input_back() -> None:
    bench = Bench(max_inbox=2)
    bench.submit(fence(1))
    for _ in range(4):
        bench.update(fence(1), "echo")
    (failed,) = bench.said
    assert isinstance(failed, StageFailed)
    assert "2 chunks wait" in failed.error.message
    assert len(bench.connector) == 0
    bench.pool.run_all()
    assert bench.engine.active == 0


def test_one_request_too_many_fails_at_once() -> None:
    bench = Bench(max_requests=1)
    bench.submit(fence(1))
    bench.submit(fence(2))
    assert [type(event) for event in bench.said] == [StageFailed]
    assert bench.said[0].fence == fence(2)
    assert bench.engine.active == 1


def test_a_full_pool_fails_the_request_and_still_closes_the_worker() -> None:
    bench = Bench(capacity=1)
    bench.submit(fence(1))
    bench.pool.run()
    bench.submit(fence(2))
    bench.update(fence(1), "echo")
    assert isinstance(bench.said[0], StageFailed)
    assert bench.said[0].fence == fence(1)
    assert bench.workers[0].closed == 1
    bench.engine.abort(fence(2))
    bench.pool.run_all()
    assert bench.engine.active == 0


def test_what_comes_for_an_unknown_or_finished_request_is_dropped() -> None:
    bench = Bench()
    bench.update(fence(9), "echo")
    bench.submit(fence(1))
    bench.update(fence(1), "echo", final=True)
    bench.update(fence(1), "after the end")
    bench.engine.abort(fence(9))
    bench.pool.run_all()
    assert bench.texts(fence(1)) == ["echo", "end"]
    assert len(bench.connector) == 0


def test_a_fence_is_taken_once() -> None:
    bench = Bench()
    bench.submit(fence(1))
    with pytest.raises(StateError, match="has a request already"):
        bench.submit(fence(1))


def test_load_runs_on_the_pool_and_its_failure_is_a_stage_error() -> None:
    pool = WorkerPool(threads=1, name="load", capacity=4)
    threads: list[str] = []

    def engine(load: Callable[[], None]) -> PooledEngine:
        return PooledEngine(
            stage="echo",
            factory=ScriptedWorker,
            connector=MemoryConnector(budget_bytes=100),
            pool=pool,
            priority=0,
            load=load,
            max_requests=1,
            max_inbox=1,
        )

    asyncio.run(engine(lambda: threads.append(threading.current_thread().name)).start(lambda event: None))
    assert threads == ["load-0"]

    def broken() -> None:
        raise OSError("no such file")

    failing = engine(broken)
    with pytest.raises(StageError, match="echo: cannot be loaded: no such file"):
        asyncio.run(failing.start(lambda event: None))
    with pytest.raises(StateError, match="not running"):
        failing.submit(StageRequest(fence=fence(1), stage="echo"))
    pool.close()


FENCES = [fence(number, session) for session in ("s", "t") for number in (1, 2)]
VERBS = st.sampled_from(["echo", "echo", "echo", "fail", "stale", "during", "during-fail"])


class Interleavings(RuleBasedStateMachine):
    """Jobs run in any order and inside one another; requests are aborted, retired and fed at any point."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(max_inbox=3)
        self.submitted: set[Fence] = set()
        self.silenced: dict[Fence, int] = {}
        self.sent: dict[Fence, list[str]] = {}
        self.count = 0

    @precondition(lambda self: len(self.submitted) < len(FENCES))
    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        free = data.draw(st.sampled_from([each for each in FENCES if each not in self.submitted]))
        self.submitted.add(free)
        self.bench.submit(free)

    @rule(target_fence=st.sampled_from(FENCES), verb=VERBS, final=st.booleans())
    def update(self, target_fence: Fence, verb: str, final: bool) -> None:
        self.count += 1
        text = f"{verb} {self.count}"
        try:
            self.bench.update(target_fence, text, final=final)
        except StaleFence:
            return
        self.sent.setdefault(target_fence, []).append(text)

    @rule(target_fence=st.sampled_from(FENCES))
    def abort(self, target_fence: Fence) -> None:
        self.bench.engine.abort(target_fence)
        if target_fence in self.submitted:
            self.silenced.setdefault(target_fence, len(self.bench.said_for(target_fence)))

    @rule(target_fence=st.sampled_from(FENCES))
    def retire(self, target_fence: Fence) -> None:
        self.bench.connector.retire(target_fence)

    @precondition(lambda self: self.bench.pool.jobs)
    @rule(
        data=st.data(),
        target_fence=st.sampled_from(FENCES),
        meanwhile=st.sampled_from(["none", "abort", "run", "feed"]),
    )
    def run(self, data: st.DataObject, target_fence: Fence, meanwhile: str) -> None:
        def hook() -> None:
            self.bench.hook = None
            if meanwhile == "abort":
                self.abort(target_fence)
            elif meanwhile == "feed":
                self.update(target_fence, "echo", final=False)
            elif meanwhile == "run":
                self.bench.pool.run_all()

        self.bench.hook = hook
        self.bench.pool.run(data.draw(st.integers(0, len(self.bench.pool.jobs) - 1)))
        self.bench.hook = None

    @invariant()
    def nothing_is_said_after_an_abort(self) -> None:
        for silent, count in self.silenced.items():
            assert len(self.bench.said_for(silent)) == count

    @invariant()
    def the_last_word_is_said_once_and_last(self) -> None:
        for each in self.submitted:
            ends = [not isinstance(event, StageOutput) for event in self.bench.said_for(each)]
            assert not any(ends[:-1])

    @invariant()
    def input_is_worked_in_order_without_gaps(self) -> None:
        for worker in self.bench.workers:
            sent = [text for text in self.sent.get(worker.request.fence, []) if text in worker.fed]
            assert worker.fed == sent
            assert worker.closed <= 1

    def teardown(self) -> None:
        self.bench.pool.run_all()
        open_now = self.bench.engine.active
        assert open_now == sum(not worker.closed for worker in self.bench.workers)
        for each in FENCES:
            self.bench.engine.abort(each)
        self.bench.pool.run_all()
        assert [worker.closed for worker in self.bench.workers] == [1] * len(self.bench.workers)
        assert self.bench.engine.active == 0
        for each in FENCES:
            self.bench.connector.retire(each)
        assert self.bench.connector.nbytes == 0


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_threads_aborts_and_failures_leave_nothing_and_say_nothing_late() -> None:
    """The same promises with real threads: 300 turns on 4 threads, half of them aborted while they run."""

    async def scenario() -> None:
        pool = WorkerPool(threads=4, name="stress", capacity=1000)
        connector = MemoryConnector(budget_bytes=1 << 20)
        workers: list[ScriptedWorker] = []
        aborted: set[Fence] = set()
        late: list[StageEvent] = []
        ends: dict[Fence, int] = {}
        kept = {fence(number, session=f"s{number % 3}") for number in range(0, 300, 2)}
        settled = asyncio.Event()
        loop = asyncio.get_running_loop()

        def sink(event: StageEvent) -> None:
            if event.fence in aborted:
                late.append(event)
            if not isinstance(event, StageOutput):
                ends[event.fence] = ends.get(event.fence, 0) + 1
                if kept <= ends.keys():
                    loop.call_soon_threadsafe(settled.set)

        def make(request: StageRequest) -> ScriptedWorker:
            worker = ScriptedWorker(request)
            workers.append(worker)
            return worker

        engine = PooledEngine(
            stage="echo",
            factory=make,
            connector=connector,
            pool=pool,
            priority=1,
            load=None,
            max_requests=400,
            max_inbox=16,
        )
        await engine.start(sink)
        for number in range(300):
            turn = fence(number, session=f"s{number % 3}")
            engine.submit(StageRequest(fence=turn, stage="echo"))
            for text in ("echo", "echo", "fail" if number % 5 == 0 else "echo"):
                engine.update(turn, connector.put(turn, Text(text=text, start=0)), final=False)
            if number % 2:
                engine.abort(turn)
                aborted.add(turn)
            else:
                engine.update(turn, None, final=True)
        await asyncio.wait_for(settled.wait(), WAIT_S)
        await asyncio.wait_for(engine.stop(), WAIT_S)
        pool.close()
        assert late == []
        assert {turn: ends[turn] for turn in kept} == dict.fromkeys(kept, 1)
        # One that is aborted may have failed before.
        assert max(ends.values()) == 1
        assert {worker.closed for worker in workers} == {1}
        assert engine.active == 0

    asyncio.run(scenario())


def test_stop_waits_until_a_running_worker_has_returned_and_is_closed() -> None:
    entered, let_go = threading.Event(), threading.Event()

    class Slow(ScriptedWorker):
        def feed(self, payload: Payload, emit: Emit) -> None:
            entered.set()
            assert let_go.wait(WAIT_S)
            assert not emit(Text(text="late", start=0))

        def cancel(self) -> None:
            let_go.set()

    async def scenario() -> None:
        pool = WorkerPool(threads=1, name="slow", capacity=8)
        connector = MemoryConnector(budget_bytes=1000)
        made: list[Slow] = []
        said: list[StageEvent] = []

        def make(request: StageRequest) -> Slow:
            made.append(Slow(request))
            return made[-1]

        engine = PooledEngine(
            stage="echo",
            factory=make,
            connector=connector,
            pool=pool,
            priority=1,
            load=None,
            max_requests=2,
            max_inbox=2,
        )
        await engine.start(said.append)
        engine.submit(StageRequest(fence=fence(1), stage="echo"))
        engine.update(fence(1), connector.put(fence(1), Text(text="go", start=0)), final=False)
        assert await asyncio.to_thread(entered.wait, WAIT_S)
        await asyncio.wait_for(engine.stop(), WAIT_S)
        assert made[0].closed == 1
        assert said == []
        assert len(connector) == 0
        pool.close()

    asyncio.run(scenario())


def test_kind_of_the_echo_is_text() -> None:
    """Guards the fixtures: an output that lost its payload would make the assertions above vacuous."""
    bench = Bench()
    bench.submit(fence(1))
    bench.update(fence(1), "echo")
    bench.pool.run_all()
    (output,) = bench.said
    assert isinstance(output, StageOutput)
    assert output.handle.kind is Kind.TEXT
