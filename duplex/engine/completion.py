"""One streamed answer of llama.cpp: its chunks, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duplex.errors import StageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How a generation ended.

    Attributes:
        reason: ``stop``, ``length`` (the bound of the request or the context was reached) or ``cancelled``.
        input_tokens: tokens of the prompt, `cached_tokens` of which were not computed again.
        cached_tokens: see above.
        output_tokens: tokens generated.
        judged: probability of a token that was asked about, as the first one after the prompt; None where none was.
    """

    reason: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    judged: float | None = None


class CompletionReader:
    """Takes the chunks of one streamed completion. Called by native code, into which nothing may be raised: whatever
    goes wrong is kept, ends the stream, and is raised by `result`.

    Args:
        on_text: takes each piece; False ends the stream.
        over: whether nobody wants it any more; asked after each chunk.
        judged: a token whose probability is wanted, as the first one after the prompt.

    Attributes:
        prompt: tokens of the prompt; 0 where it was not looked at.
        cached: those of them that were there; None likewise.
        read_tokens, read_ms: what was computed of a prompt, and the time that it took; 0 where that did not end.
    """

    def __init__(self, *, on_text: Callable[[str], bool], over: Callable[[], bool], judged: int | None = None) -> None:
        self._on_text = on_text
        self._over = over
        self._wanted = judged
        self._judged: float | None = None
        self._reason: str | None = None
        self.prompt = self._output = 0
        self.cached: int | None = None
        self.read_tokens = self.read_ms = 0.0
        self._failure: BaseException | None = None

    def __call__(self, chunk: dict[str, Any]) -> bool:
        """One chunk; True ends the stream."""
        try:
            return self._read(chunk)
        except BaseException as failure:  # see the class
            self._failure = failure
            return True

    def _read(self, chunk: dict[str, Any]) -> bool:
        if (error := chunk.get("error")) is not None:
            raise StageError(f"llama.cpp refused: {error.get('message', 'no reason given')}", stage="llama")
        if (progress := chunk.get("prompt_progress")) is not None:
            self.prompt, self.cached = progress["total"], progress["cache"]
            return self._cancel_if(self._over())
        choice = chunk["choices"][0]
        if self._wanted is not None and self._judged is None and choice.get("logprobs"):
            likely = {one["id"]: one["logprob"] for one in choice["logprobs"]["content"][0]["top_logprobs"]}
            self._judged = math.exp(likely.get(self._wanted, -math.inf))
        going_on = not choice["text"] or self._on_text(choice["text"])
        if (timings := chunk.get("timings")) is not None:
            self._reason = choice["finish_reason"]
            self.prompt, self.cached = timings["cache_n"] + timings["prompt_n"], timings["cache_n"]
            self._output = timings["predicted_n"]
            self.read_tokens, self.read_ms = timings["prompt_n"], timings["prompt_ms"]
            return False
        self._output += 1
        return self._cancel_if(not going_on or self._over())

    def _cancel_if(self, over: bool) -> bool:
        if over:
            self._reason = "cancelled"
        return over

    @property
    def held(self) -> int | None:
        """Tokens in the slot after an answer that came to its end: its last one was not computed any more."""
        if self._failure is not None or self._reason in (None, "cancelled"):
            return None
        return self.prompt + self._output - 1

    def result(self) -> Completion:
        if self._failure is not None:
            raise self._failure
        if self._reason is None:
            raise StageError("llama.cpp ended without an answer", stage="llama")
        return Completion(
            reason=self._reason,
            input_tokens=self.prompt,
            cached_tokens=self.cached or 0,
            output_tokens=self._output,
            judged=self._judged,
        )
