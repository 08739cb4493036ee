"""One request, and its two machines: the request's own and, per stage, the stage's."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from duplex.connector.base import Handle
from duplex.engine.base import StageFinished
from duplex.errors import StateError
from duplex.session.fence import Fence


class StageState(Enum):
    """Where one stage of one request stands."""

    FED = auto()
    """Submitted; its input may still grow."""
    DRAINING = auto()
    """Its input is complete; output may still come."""
    FINISHED = auto()
    """It has given its last chunk."""


class StageInput(Enum):
    """What can happen to a stage of a request that is alive."""

    CHUNK = auto()
    LAST = auto()
    OUTPUT = auto()
    FINISHED = auto()


STAGE_TABLE: dict[tuple[StageState, StageInput], StageState] = {
    (StageState.FED, StageInput.CHUNK): StageState.FED,
    (StageState.FED, StageInput.LAST): StageState.DRAINING,
    (StageState.FED, StageInput.OUTPUT): StageState.FED,
    # An engine may know by itself that it is done (a stop token) before its input has ended.
    (StageState.FED, StageInput.FINISHED): StageState.FINISHED,
    (StageState.DRAINING, StageInput.OUTPUT): StageState.DRAINING,
    (StageState.DRAINING, StageInput.FINISHED): StageState.FINISHED,
}
"""Every move that a stage may make; whatever is not here is late, and is dropped and counted."""


@dataclass(slots=True, kw_only=True)
class StageRun:
    """A stage at work for a request.

    Attributes:
        open_inputs: upstream stages of the request that have not finished.
        parked: input that waits for the end of the stage that makes it, by that stage, in order.
    """

    state: StageState = StageState.FED
    open_inputs: set[str]
    parked: dict[str, list[Handle]] = field(default_factory=dict)

    def allows(self, what: StageInput) -> bool:
        """Whether the table has this move."""
        return (self.state, what) in STAGE_TABLE

    def move(self, what: StageInput) -> None:
        """Raises StateError where the table has no such move."""
        if not self.allows(what):
            raise StateError(f"a stage in state {self.state.name} cannot take {what.name}")
        self.state = STAGE_TABLE[self.state, what]

    def park(self, source: str, handle: Handle) -> None:
        """Keep what `source` has made until it has finished."""
        self.parked.setdefault(source, []).append(handle)

    @property
    def waiting(self) -> int:
        """Handles that are parked."""
        return sum(map(len, self.parked.values()))

    def unpark(self) -> list[Handle]:
        """Everything parked, which is kept no longer: nobody will read it."""
        parked = [handle for handles in self.parked.values() for handle in handles]
        self.parked.clear()
        return parked


@dataclass(slots=True, kw_only=True)
class Request:
    """A request from admission to completion; its fence is its identity.

    Attributes:
        stages: its stages, upstream first.
        waiting_for: stages with a final output that have not finished: the request is complete when none is left.
    """

    fence: Fence
    stages: dict[str, StageRun]
    waiting_for: set[str]
    reason: str = "stop"
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    finished: list[str] = field(default_factory=list)

    def account(self, event: StageFinished) -> None:
        """Add what a stage has consumed. The first reason that is not ``stop`` is the request's."""
        if self.reason == "stop":
            self.reason = event.reason
        self.input_tokens += event.input_tokens
        self.cached_tokens += event.cached_tokens
        self.output_tokens += event.output_tokens
        self.finished.append(event.stage)
