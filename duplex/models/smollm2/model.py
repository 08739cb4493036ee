"""The model itself: prompts in, pieces of text out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from duplex.connector.payload import Message, Prompt
from duplex.engine.llama import Completion, Interrupt, LlamaServer
from duplex.models.smollm2 import chat
from duplex.models.smollm2.window import fit

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
    """Answers prompts for several conversations at once. Every method may be called from any thread.

    Args:
        model: ``smollm2/q4_1.gguf``.
        sessions: conversations whose history stays cached.
        context_tokens: longest history with its answer, per conversation, 256 at least. What is too long is cut by
            `window.fit`. One conversation of 2,048 tokens takes 47 MB.
        threads: that generate.
        batch_threads: that read prompts.

    Raises:
        StageError: the file cannot be loaded.
    """

    def __init__(self, *, model: Path, sessions: int, context_tokens: int, threads: int, batch_threads: int) -> None:
        self._server = LlamaServer(
            model=model,
            slots=sessions,
            context_tokens=context_tokens,
            threads=threads,
            batch_threads=batch_threads,
        )
        self._context_tokens = context_tokens
        self._sessions = sessions
        self._counted: dict[int, int] = {}

    def warm(self, instructions: str) -> None:
        """Have `instructions` in the cache of every conversation, so that the first answer is as quick as the next."""
        messages = (Message(role="system", text=instructions), Message(role="user", text="Hello."))
        for number in range(self._sessions):
            key = f"warm-{number}"
            prompt = Prompt(messages=messages, cache_key=key, max_tokens=1, temperature=0.0)
            self.generate(prompt, on_text=lambda piece: True, interrupt=self.interrupt())
        for number in range(self._sessions):
            self.release(f"warm-{number}")

    def interrupt(self) -> Interrupt:
        """A new handle that ends one call of `generate`."""
        return self._server.interrupt()

    def generate(self, prompt: Prompt, *, on_text: Callable[[str], bool], interrupt: Interrupt) -> Completion:
        """Answer `prompt`, or only read it where it is not complete; see `LlamaServer.generate`.

        Raises:
            StageError: the engine failed.
            StateError: a message has an unknown role.
        """
        answer = min(prompt.max_tokens, self._context_tokens // 4)
        budget = self._context_tokens - answer - _MARKER_TOKENS
        return self._server.generate(
            chat.prompt(self._fit(prompt.messages, budget), complete=prompt.complete),
            cache_key=prompt.cache_key,
            max_tokens=prompt.max_tokens if prompt.complete else 0,
            temperature=prompt.temperature,
            stop=chat.STOP,
            loop_penalty=_LOOP_PENALTY,
            on_text=on_text if prompt.complete else _unsaid,
            interrupt=interrupt,
        )

    def _fit(self, messages: tuple[Message, ...], budget: int) -> tuple[Message, ...]:
        # A token is a byte at least, but for what `escape` adds: short conversations need no counting.
        most = sum(len(chat.escape(message.text).encode()) + _MARKER_TOKENS for message in messages)
        if most <= budget:
            return messages
        return fit([_shortened(message, budget) for message in messages], budget_tokens=budget, count=self._count)

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

    def spent(self, cache_key: str) -> float:
        """Seconds of the engine's work for a conversation; see `LlamaServer.spent`."""
        return self._server.spent(cache_key)

    def release(self, cache_key: str) -> None:
        """The conversation is over: another may have its cache."""
        self._server.release(cache_key)

    def close(self) -> None:
        """End what runs, and give back threads and memory."""
        self._server.close()


def _unsaid(piece: str) -> bool:
    """llama.cpp generates one token at least, and it is not wanted."""
    return False


def _shortened(message: Message, budget_tokens: int) -> Message:
    """Without what cannot find room anyway: the end of instructions, the beginning of everything else."""
    most = budget_tokens * _CHARS_PER_TOKEN
    if len(message.text) <= most:
        return message
    return replace(message, text=message.text[:most] if message.role == "system" else message.text[-most:])
