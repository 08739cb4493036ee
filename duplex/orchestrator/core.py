"""The orchestrator, pure: it alone owns a request from admission to completion, and schedules stages.

Every stage of a request is submitted at admission, so that a downstream stage starts with the first chunk of its
upstream (async_chunk) and not with the last. Where an edge has that off, its handles are parked here, and go on
together when the upstream has finished. Handles pass through here; payloads never do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from duplex.connector.base import Handle
from duplex.engine.base import StageEvent, StageFailed, StageFinished, StageOptions, StageOutput, StageRequest
from duplex.errors import StageError
from duplex.orchestrator.graph import StageGraph
from duplex.orchestrator.request import Request, StageInput, StageRun
from duplex.session.fence import Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Open a request with these stages of the graph."""

    fence: Fence
    stages: tuple[str, ...]
    options: StageOptions = StageOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """More input for a stage of a request, from outside the graph; `last`: nothing follows."""

    fence: Fence
    stage: str
    handle: Handle | None
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The request is not wanted any more."""

    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitStage:
    """Make a stage ready for a request."""

    request: StageRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHandle:
    """The payload has this many readers; comes before they are told of it."""

    handle: Handle
    readers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStage:
    """Pass input on to a stage."""

    fence: Fence
    stage: str
    handle: Handle | None
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortStage:
    """Stop a stage for a request."""

    fence: Fence
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """A final output for whoever opened the request."""

    fence: Fence
    stage: str
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCompleted:
    """Every stage with a final output has completed. The last effect of a request."""

    fence: Fence
    reason: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """The request failed, and nothing else did. The last effect of a request."""

    fence: Fence
    error: StageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Nobody will read this payload."""

    handle: Handle


Event = Admit | Input | Abort | StageEvent
Effect = SubmitStage | ShareHandle | UpdateStage | AbortStage | Deliver | RequestCompleted | RequestFailed | Discard


class Orchestrator:
    """Owns every request of one graph.

    Args:
        graph: what may be asked for.
        capacity: most requests alive at one time; one more fails with a StageError.
        most_parked: most chunks that wait for the end of their makers before one stage of one request. The policy when
            full is to fail that request, as it is for an engine's inbox.

    Attributes:
        dropped: how many events came too late or for no request, by kind.
    """

    def __init__(self, graph: StageGraph, *, capacity: int, most_parked: int = 4096) -> None:
        self.graph = graph
        self.dropped: Counter[str] = Counter()
        self._capacity = capacity
        self._most_parked = most_parked
        self._requests: dict[Fence, Request] = {}

    def __len__(self) -> int:
        """Requests alive."""
        return len(self._requests)

    def __contains__(self, fence: Fence) -> bool:
        return fence in self._requests

    def receive(self, event: Event) -> list[Effect]:
        """Take one event, return what is to be done, in order.

        Raises:
            GraphError: an `Admit` names stages that the graph does not have.
        """
        match event:
            case Admit():
                return self._admit(event)
            case Input():
                return self._input(event)
            case Abort(fence=fence):
                return self._abort(fence)
            case StageOutput():
                return self._output(event)
            case StageFinished():
                return self._finished(event)
            case StageFailed(fence=fence, error=error):
                if fence not in self._requests:
                    return self._drop("failure")
                return self._fail(fence, error)

    def _fail(self, fence: Fence, error: StageError) -> list[Effect]:
        return [*self._abort(fence), RequestFailed(fence=fence, error=error)]

    def _drop(self, kind: str, handle: Handle | None = None) -> list[Effect]:
        self.dropped[kind] += 1
        return [Discard(handle=handle)] if handle is not None else []

    def _admit(self, event: Admit) -> list[Effect]:
        fence = event.fence
        if fence in self._requests:
            return self._drop("admit")
        plan = self.graph.plan(event.stages)
        if len(self._requests) >= self._capacity:
            error = StageError(f"all {self._capacity} places for requests are taken", stage=plan[0])
            return [RequestFailed(fence=fence, error=error)]
        self._requests[fence] = Request(
            fence=fence,
            stages={
                name: StageRun(open_inputs={edge.source for edge in self.graph.upstream(name)} & set(plan))
                for name in plan
            },
            waiting_for={name for name in plan if self.graph.stages[name].final_output},
        )
        # Downstream first: a stage is ready before anything can reach it.
        return [
            SubmitStage(request=StageRequest(fence=fence, stage=name, options=event.options)) for name in reversed(plan)
        ]

    def _input(self, event: Input) -> list[Effect]:
        request = self._requests.get(event.fence)
        run = request.stages.get(event.stage) if request is not None else None
        what = StageInput.LAST if event.last else StageInput.CHUNK
        if run is None or not run.allows(what):
            return self._drop("input", event.handle)
        run.move(what)
        unread = _discard(run.unpark()) if event.last else []
        return [*unread, UpdateStage(fence=event.fence, stage=event.stage, handle=event.handle, last=event.last)]

    def _abort(self, fence: Fence) -> list[Effect]:
        request = self._requests.pop(fence, None)
        if request is None:
            return self._drop("abort")
        unread = [handle for run in request.stages.values() for handle in run.unpark()]
        return [
            *(AbortStage(fence=fence, stage=name) for name in request.stages if name not in request.finished),
            *_discard(unread),
        ]

    def _output(self, event: StageOutput) -> list[Effect]:
        request = self._requests.get(event.fence)
        run = request.stages.get(event.stage) if request is not None else None
        if request is None or run is None or not run.allows(StageInput.OUTPUT):
            return self._drop("output", event.handle)
        run.move(StageInput.OUTPUT)
        now: list[Effect] = []
        later: list[StageRun] = []
        for edge in self.graph.downstream(event.stage):
            target = request.stages.get(edge.target)
            if edge.kind is not event.handle.kind or target is None or not target.allows(StageInput.CHUNK):
                continue
            if edge.async_chunk:
                target.move(StageInput.CHUNK)
                now.append(UpdateStage(fence=event.fence, stage=edge.target, handle=event.handle, last=False))
            elif target.waiting >= self._most_parked:
                message = f"more than {self._most_parked} chunks wait for the end of {event.stage}"
                error = StageError(message, stage=edge.target)
                return [Discard(handle=event.handle), *self._fail(event.fence, error)]
            else:
                later.append(target)
        if self.graph.stages[event.stage].final_output:
            now.append(Deliver(fence=event.fence, stage=event.stage, handle=event.handle))
        for target in later:
            target.park(event.stage, event.handle)
        readers = len(now) + len(later)
        if not readers:
            return [Discard(handle=event.handle)]
        return [ShareHandle(handle=event.handle, readers=readers), *now] if readers > 1 else now

    def _finished(self, event: StageFinished) -> list[Effect]:
        request = self._requests.get(event.fence)
        run = request.stages.get(event.stage) if request is not None else None
        if request is None or run is None or not run.allows(StageInput.FINISHED):
            return self._drop("finish")
        run.move(StageInput.FINISHED)
        request.account(event)
        request.waiting_for.discard(event.stage)
        effects: list[Effect] = _discard(run.unpark())  # it knew by itself that it was done
        for name in dict.fromkeys(edge.target for edge in self.graph.downstream(event.stage)):
            target = request.stages.get(name)
            if target is None:
                continue
            target.open_inputs.discard(event.stage)
            for handle in target.parked.pop(event.stage, ()):
                target.move(StageInput.CHUNK)
                effects.append(UpdateStage(fence=event.fence, stage=name, handle=handle, last=False))
            if not target.open_inputs and target.allows(StageInput.LAST):
                target.move(StageInput.LAST)
                effects.append(UpdateStage(fence=event.fence, stage=name, handle=None, last=True))
        if not request.waiting_for:
            effects += self._complete(request)
        return effects

    def _complete(self, request: Request) -> list[Effect]:
        return [
            *self._abort(request.fence),
            RequestCompleted(
                fence=request.fence,
                reason=request.reason,
                input_tokens=request.input_tokens,
                cached_tokens=request.cached_tokens,
                output_tokens=request.output_tokens,
            ),
        ]


def _discard(handles: list[Handle]) -> list[Effect]:
    return [Discard(handle=handle) for handle in handles]
