"""The face of every engine, and the three things an engine says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from duplex.connector.base import Handle
from duplex.errors import StageError
from duplex.session.fence import Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """What a turn may ask of its stages.

    Attributes:
        speed: of speech, 1.0 is the voice's own pace.
        voice: name of the voice, as the model's folder knows it; empty for its default.
    """

    speed: float = 1.0
    voice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRequest:
    """Asks a stage to get ready for a turn: its input follows by `Engine.update`."""

    fence: Fence
    stage: str
    options: StageOptions = StageOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutput:
    """One chunk that a stage made, under the fence of its request."""

    fence: Fence
    stage: str
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFinished:
    """A stage has given its last chunk for this request.

    Attributes:
        reason: ``stop``, or ``length`` where a limit on the output was reached.
        input_tokens, cached_tokens, output_tokens: what an autoregressive engine counted, else 0.
    """

    fence: Fence
    stage: str
    reason: str = "stop"
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFailed:
    """A stage cannot finish this request; other requests are not touched."""

    fence: Fence
    stage: str
    error: StageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Something whose time engines share: the threads of a pool, the loop of one model, the cores of a machine.

    Attributes:
        most: seconds of work that it does in a second.
        weights: by engine: how many of those seconds one second of the engine's work takes.
    """

    most: float
    weights: Mapping[str, float]

    def load(self, compute: Mapping[str, float]) -> float:
        """Seconds of the lane per second, for so many seconds of each engine per second."""
        return sum(self.weights.get(engine, 0.0) * seconds for engine, seconds in compute.items())


StageEvent = StageOutput | StageFinished | StageFailed
Sink = Callable[[StageEvent], None]
"""Where an engine says what it has to say; may be called from any thread, does not wait."""


class Engine(Protocol):
    """Runs one stage for many requests. `submit`, `update` and `abort` are called on the event loop and do not wait."""

    async def start(self, sink: Sink) -> None:
        """Load and warm up. Raises StageError where the model cannot be loaded."""

    async def stop(self) -> None:
        """Abort what runs, and give back every thread and byte."""

    def submit(self, request: StageRequest) -> None:
        """Take a new request. Its fence is new to this stage."""

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        """Give a request one more chunk of input; `final` says that none follows. An unknown fence is ignored."""

    def abort(self, fence: Fence) -> None:
        """Stop a request as soon as the engine can, and say nothing more about it. An unknown fence is ignored."""
