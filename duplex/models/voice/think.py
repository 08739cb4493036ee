"""The `think` stage: a prompt in, the answer's text out, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from duplex.connector.payload import Completeness, Payload, Prompt, Text
from duplex.engine.base import StageRequest
from duplex.engine.completion import Completion
from duplex.engine.llama import Interrupt
from duplex.engine.worker import Emit, Usage, Worker
from duplex.errors import StateError
from duplex.session.fence import Fence


class LanguageModel(Protocol):
    """What answers prompts; loaded once, shared by all workers."""

    def interrupt(self) -> Interrupt: ...

    def generate(
        self, prompt: Prompt, *, fence: Fence, on_text: Callable[[str], bool], interrupt: Interrupt
    ) -> Completion: ...


class ThinkStage:
    """Makes a worker for each turn.

    A worker occupies its thread while it generates, asleep in native code: give this stage a pool of its own,
    with one thread for each answer that is made at the same time.

    Args:
        load_model: loads the language model.
    """

    def __init__(self, *, load_model: Callable[[], LanguageModel]) -> None:
        self._load_model = load_model
        self._model: LanguageModel | None = None

    def load(self) -> None:
        """Raises StageError where the model cannot be loaded."""
        self._model = self._load_model()

    def __call__(self, request: StageRequest) -> Worker:
        if self._model is None:
            raise StateError(f"{request.stage}: used before it was loaded")
        return ThinkWorker(model=self._model, fence=request.fence)


class ThinkWorker:
    """One answer. Takes one `Prompt` and generates while it is fed; emits `Text`, or, for one that is not complete,
    `Completeness`."""

    def __init__(self, *, model: LanguageModel, fence: Fence) -> None:
        self._model = model
        self._fence = fence
        self._interrupt = model.interrupt()
        self._done: Completion | None = None
        self._start = 0

    def feed(self, payload: Payload, emit: Emit) -> None:
        """Answer the prompt; returns when the answer is complete or not wanted any more.

        Raises:
            StateError: it is no prompt, or a second one.
            StageError: the model failed.
        """
        if not isinstance(payload, Prompt) or self._done is not None:
            raise StateError("thinking takes one prompt")

        def on_text(piece: str) -> bool:
            start, self._start = self._start, self._start + len(piece)
            return emit(Text(text=piece, start=start))

        self._done = self._model.generate(payload, fence=self._fence, on_text=on_text, interrupt=self._interrupt)
        if self._done.judged is not None:
            emit(Completeness(probability=self._done.judged))

    def cancel(self) -> None:
        """End the generation: within a token, or within one batch of a prompt that is still being read."""
        self._interrupt.set()

    def finish(self, emit: Emit) -> Usage:
        if self._done is None:
            raise StateError("thinking got no prompt")
        return Usage(
            reason="length" if self._done.reason == "length" else "stop",
            input_tokens=self._done.input_tokens,
            cached_tokens=self._done.cached_tokens,
            output_tokens=self._done.output_tokens,
        )

    def close(self) -> None:
        """Nothing is held: the conversation's cache outlives its turns."""
