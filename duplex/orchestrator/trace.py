"""When each stage of a request did what: the waterfall of a turn."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from duplex.session.fence import Fence


@dataclass(slots=True, kw_only=True)
class StageTrace:
    """Moments of one stage, in seconds on the server's clock; None where it has not come to that."""

    submitted_s: float
    first_input_s: float | None = None
    first_output_s: float | None = None
    finished_s: float | None = None
    chunks: int = 0


@dataclass(slots=True, kw_only=True)
class RequestTrace:
    """Moments of one request.

    Attributes:
        stages: by name, upstream first.
    """

    fence: Fence
    stages: dict[str, StageTrace] = field(default_factory=dict)


class TraceLog:
    """The newest traces; the oldest go first.

    Args:
        capacity: traces kept.
    """

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._traces: OrderedDict[Fence, RequestTrace] = OrderedDict()

    def get(self, fence: Fence) -> RequestTrace | None:
        """The trace of a request, also when it is over."""
        return self._traces.get(fence)

    def submitted(self, fence: Fence, stage: str, now: float) -> None:
        trace = self._traces.get(fence)
        if trace is None:
            trace = self._traces[fence] = RequestTrace(fence=fence)
            while len(self._traces) > self._capacity:
                self._traces.popitem(last=False)
        # Stages are submitted downstream first, and read upstream first.
        trace.stages = {stage: StageTrace(submitted_s=now), **trace.stages}

    def fed(self, fence: Fence, stage: str, now: float) -> None:
        if (run := self._stage(fence, stage)) is not None and run.first_input_s is None:
            run.first_input_s = now

    def gave(self, fence: Fence, stage: str, now: float) -> None:
        if (run := self._stage(fence, stage)) is not None:
            run.chunks += 1
            if run.first_output_s is None:
                run.first_output_s = now

    def finished(self, fence: Fence, stage: str, now: float) -> None:
        if (run := self._stage(fence, stage)) is not None:
            run.finished_s = now

    def _stage(self, fence: Fence, stage: str) -> StageTrace | None:
        trace = self._traces.get(fence)
        return trace.stages.get(stage) if trace is not None else None
