"""Single decisions of the orchestrator, each in the shortest sequence of events that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    Event,
    Input,
    Orchestrator,
    RequestCompleted,
    RequestFailed,
    ShareHandle,
    UpdateStage,
)
from duplex.orchestrator.graph import StageGraph
from duplex.session.fence import MAIN, Fence
from tests.orchestrator.test_graph import SOUNDS, TALK, THINK, WAV, WRITES

FENCE = Fence("s", 0, MAIN, 1)
OTHER = Fence("t", 0, MAIN, 1)


@pytest.fixture
def core() -> Orchestrator:
    """Two requests alive, each with all three stages; `think` and `code2wav` have final outputs."""
    graph = StageGraph(name="g", stages=[THINK, TALK, WAV], edges=[WRITES, SOUNDS])
    core = Orchestrator(graph, capacity=3)
    for fence in (FENCE, OTHER):
        core.receive(Admit(fence=fence, stages=("think", "talk", "code2wav")))
    return core


def handle(kind: Kind, key: int = 1) -> Handle:
    return Handle(fence=FENCE, kind=kind, key=key, nbytes=1)


def test_input_after_the_last_is_thrown_away_and_counted(core: Orchestrator) -> None:
    last, late = handle(Kind.PROMPT, 1), handle(Kind.PROMPT, 2)
    assert core.receive(Input(fence=FENCE, stage="think", handle=last, last=True)) == [
        UpdateStage(fence=FENCE, stage="think", handle=last, last=True)
    ]
    assert core.receive(Input(fence=FENCE, stage="think", handle=late, last=False)) == [Discard(handle=late)]
    assert core.dropped == {"input": 1}


def test_a_payload_with_two_readers_is_shared_before_either_is_told(core: Orchestrator) -> None:
    text = handle(Kind.TEXT)
    assert core.receive(StageOutput(fence=FENCE, stage="think", handle=text)) == [
        ShareHandle(handle=text, readers=2),
        UpdateStage(fence=FENCE, stage="talk", handle=text, last=False),
        Deliver(fence=FENCE, stage="think", handle=text),
    ]


def test_a_request_is_complete_only_when_every_final_output_is(core: Orchestrator) -> None:
    effects = core.receive(StageFinished(fence=FENCE, stage="think", reason="stop", output_tokens=1))
    assert effects == [UpdateStage(fence=FENCE, stage="talk", handle=None, last=True)]
    core.receive(StageFinished(fence=FENCE, stage="talk", reason="stop", output_tokens=0))
    *_, end = core.receive(StageFinished(fence=FENCE, stage="code2wav", reason="stop", output_tokens=0))
    assert isinstance(end, RequestCompleted)
    assert (end.fence, end.output_tokens) == (FENCE, 1)
    assert FENCE not in core


def test_a_failed_stage_stops_the_others_of_its_request_and_no_more(core: Orchestrator) -> None:
    error = StageError("broke", stage="talk")
    *stopped, failed = core.receive(StageFailed(fence=FENCE, stage="talk", error=error))
    assert failed == RequestFailed(fence=FENCE, error=error)
    for stage in ("think", "code2wav"):
        assert AbortStage(fence=FENCE, stage=stage) in stopped
    assert all(effect.fence == FENCE for effect in stopped if isinstance(effect, AbortStage))
    assert OTHER in core


def parking(*, most_parked: int = 4096) -> Orchestrator:
    """One request of three stages, of which `talk` gets its input only when `think` has ended."""
    edges = [replace(WRITES, async_chunk=False), SOUNDS]
    graph = StageGraph(name="g", stages=[THINK, TALK, WAV], edges=edges)
    core = Orchestrator(graph, capacity=1, most_parked=most_parked)
    core.receive(Admit(fence=FENCE, stages=("think", "talk", "code2wav")))
    return core


def test_without_async_chunk_the_chunks_wait_for_the_end_of_their_maker() -> None:
    core = parking()
    first, second = handle(Kind.TEXT, 1), handle(Kind.TEXT, 2)
    for text in (first, second):
        assert core.receive(StageOutput(fence=FENCE, stage="think", handle=text)) == [
            ShareHandle(handle=text, readers=2),
            Deliver(fence=FENCE, stage="think", handle=text),
        ]
    assert core.receive(StageFinished(fence=FENCE, stage="think")) == [
        UpdateStage(fence=FENCE, stage="talk", handle=first, last=False),
        UpdateStage(fence=FENCE, stage="talk", handle=second, last=False),
        UpdateStage(fence=FENCE, stage="talk", handle=None, last=True),
    ]


@pytest.mark.parametrize(
    "event",
    [
        Abort(fence=FENCE),
        StageFailed(fence=FENCE, stage="code2wav", error=StageError("broke", stage="code2wav")),
        StageFinished(fence=FENCE, stage="talk"),
        Input(fence=FENCE, stage="talk", handle=None, last=True),
    ],
    ids=["aborted", "failed", "done by itself", "input closed"],
)
def test_parked_chunks_that_nobody_will_read_are_thrown_away(event: Event) -> None:
    core = parking()
    text = handle(Kind.TEXT)
    core.receive(StageOutput(fence=FENCE, stage="think", handle=text))
    assert core.receive(event).count(Discard(handle=text)) == 1


def test_one_chunk_more_than_may_be_parked_fails_the_request() -> None:
    core = parking(most_parked=1)
    first, second = handle(Kind.TEXT, 1), handle(Kind.TEXT, 2)
    core.receive(StageOutput(fence=FENCE, stage="think", handle=first))
    effects = core.receive(StageOutput(fence=FENCE, stage="think", handle=second))
    assert effects.count(Discard(handle=first)) == effects.count(Discard(handle=second)) == 1
    assert isinstance(effects[-1], RequestFailed)
    assert str(effects[-1].error) == "talk: more than 1 chunks wait for the end of think"
