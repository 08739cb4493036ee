"""The model itself: prompts in, pieces of text out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from duplex.connector.payload import Message, Prompt
from duplex.engine.completion import Completion
from duplex.engine.llama import Interrupt, LlamaServer
from duplex.errors import StageError
from duplex.models.smollm2 import chat
from duplex.models.smollm2.window import fit
from duplex.session.fence import Fence

_MARKER_TOKENS = 8
"""Upper bound of what a message's markers cost."""

_COUNTED = 4096
"""Messages whose length in tokens is remembered."""

_CHARS_PER_TOKEN = 12
"""More than any text has on average that is worth reading; what is longer than the whole window by this is cut before
its tokens are counted, which takes a second a megabyte."""

_LOOP_PENALTY = 0.8
"""Without it a model of this size falls into endless repetition; it leaves first mentions alone."""


class SmolLM2:
    """Answers prompts for any number of conversations. Every method may be called from any thread.

    Args:
        model: ``smollm2/q4_1.gguf``.
        owner: name of whoever owns the cached histories.
        caches: conversations whose history stays cached, and that are answered at once; the others are read anew.
        context_tokens: longest history with its answer, per conversation, 256 at least. What is too long is cut by
            `window.fit`. A cache of 2,048 tokens takes 47 MB.
        threads: that generate.
        batch_threads: that read prompts.

    Raises:
        StageError: the file cannot be loaded.
    """

    def __init__(
        self, *, model: Path, owner: str, caches: int, context_tokens: int, threads: int, batch_threads: int
    ) -> None:
        self._server = LlamaServer(
            model=model,
            owner=owner,
            slots=caches,
            context_tokens=context_tokens,
            threads=threads,
            batch_threads=batch_threads,
        )
        self._owner = owner
        self._context_tokens = context_tokens
        self._counted: dict[int, int] = {}

    def warm(self, instructions: str) -> None:
        """Have `instructions` in every cache, so that the first answer is as quick as the next. Raises StageError."""
        messages = (Message(role="system", text=instructions), Message(role="user", text="Hello."))
        self._server.warm(chat.prompt(messages))

    def interrupt(self) -> Interrupt:
        """A new handle that ends one call of `generate`."""
        return self._server.interrupt()

    def generate(
        self, prompt: Prompt, *, fence: Fence, on_text: Callable[[str], bool], interrupt: Interrupt
    ) -> Completion:
        """Answer `prompt`, or only read and judge it where it is not complete; see `LlamaServer.generate`.

        Raises:
            StageError: the engine failed, or the prompt is too long and may not be cut.
            StateError: a message has an unknown role.
        """
        answer = min(prompt.max_tokens, self._context_tokens // 4)
        budget = self._context_tokens - answer - _MARKER_TOKENS
        return self._server.generate(
            chat.prompt(self._fit(prompt, budget), complete=prompt.complete),
            fence=fence,
            max_tokens=prompt.max_tokens if prompt.complete else 1,
            temperature=prompt.temperature,
            stop=chat.STOP,
            loop_penalty=_LOOP_PENALTY,
            judged=None if prompt.complete else chat.STOP[0],
            on_text=on_text if prompt.complete else _unsaid,
            interrupt=interrupt,
        )

    def _fit(self, prompt: Prompt, budget: int) -> tuple[Message, ...]:
        # A token is a byte at least, but for what `escape` adds: short conversations need no counting.
        most = sum(len(chat.escape(message.text).encode()) + _MARKER_TOKENS for message in prompt.messages)
        if most <= budget:
            return prompt.messages
        short = [_shortened(message, budget) for message in prompt.messages]
        if prompt.may_cut:
            return fit(short, budget_tokens=budget, count=self._count)
        tokens = sum(self._count(chat.render(message)) for message in short)
        if tokens <= budget:
            return prompt.messages
        raise StageError(
            f"the conversation has {tokens} tokens or more, the model has room for {budget}, and truncation is "
            "disabled: delete items, or let it be auto",
            stage=self._owner,
        )

    def _count(self, text: str) -> int:
        # The hash and not the text: what a client writes is not kept longer than its conversation.
        key = hash(text)
        tokens = self._counted.get(key)
        if tokens is None:
            tokens = self._server.count_tokens(text)
            if len(self._counted) >= _COUNTED:
                self._counted.clear()
            self._counted[key] = tokens
        return tokens

    @property
    def state(self) -> LlamaServer:
        """Whoever keeps the histories: what it has of whom, and what that costs."""
        return self._server

    def close(self) -> None:
        """End what runs, and give back threads and memory."""
        self._server.close()


def _unsaid(piece: str) -> bool:
    """The one token by which a prompt is judged is not wanted."""
    return True


def _shortened(message: Message, budget_tokens: int) -> Message:
    """Without what cannot find room anyway: the end of instructions, the beginning of everything else."""
    most = budget_tokens * _CHARS_PER_TOKEN
    if len(message.text) <= most:
        return message
    return replace(message, text=message.text[:most] if message.role == "system" else message.text[-most:])
