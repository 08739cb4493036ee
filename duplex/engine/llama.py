"""llama.cpp inside this process: one small language model, many conversations, prefix caches for some of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from duplex.engine.completion import Completion, CompletionReader
from duplex.engine.kv import KvSlot
from duplex.engine.line import Line
from duplex.engine.native_server import NativeServer
from duplex.engine.share import SharedTime
from duplex.engine.slots import KV, KvSlots
from duplex.errors import StageError, StaleState
from duplex.session.fence import MAIN, Fence
from duplex.state.ref import StateKey, StateRef
from duplex.state.store import StateStore

_LIKELIEST = 20
"""Tokens whose probability is told where one is judged."""

_TOKEN_S = 0.004
"""Seconds that a token of a prompt takes, until it has been measured."""


class Interrupt:
    """Ends one generation from another thread, also while it waits for its slot. Made by `LlamaServer.interrupt`."""

    __slots__ = ("_changed", "_is_set")

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Callable from any thread, any number of times; does not wait."""
        with self._changed:
            self._is_set = True
            self._changed.notify_all()


class LlamaServer:
    """Loads a GGUF model and generates text for several conversations at once.

    Every method may be called from any thread; `generate` occupies the thread that calls it.

    Args:
        model: the GGUF file.
        owner: name of whoever owns the conversations' prefixes.
        slots: conversations whose prefix is kept; as many generate at once, the others wait.
        context_tokens: room of one slot, for a prompt and its answer together.
        threads: that generate; 1 is fastest for a model of this size.
        batch_threads: that compute prompts.

    Raises:
        StageError: the file cannot be loaded.
    """

    def __init__(
        self, *, model: Path, owner: str, slots: int, context_tokens: int, threads: int, batch_threads: int
    ) -> None:
        self.context_tokens = context_tokens
        self._changed = threading.Condition()
        self._time = SharedTime()
        self._read_tokens = self._read_ms = 0.0
        self._tokens: dict[str, int] = {}
        self._closing = False
        self._server = NativeServer(
            model=model,
            slots=slots,
            context_tokens=context_tokens,
            threads=threads,
            batch_threads=batch_threads,
        )
        self._slots = KvSlots(
            owner=owner, slots=slots, slot_bytes=self.slot_bytes, copier=self._server.door, read_s=self._read_s
        )
        self._line = Line(could_run=self._slots.could_run)

    @property
    def slot_bytes(self) -> int:
        """Memory of one slot; see `NativeServer.slot_bytes`."""
        return self._server.slot_bytes

    def interrupt(self) -> Interrupt:
        """A new handle by which one call of `generate` can be ended."""
        return Interrupt(self._changed)

    def generate(
        self,
        prompt: str,
        *,
        fence: Fence,
        max_tokens: int,
        temperature: float,
        stop: Sequence[str],
        loop_penalty: float = 0.0,
        judged: str | None = None,
        on_text: Callable[[str], bool],
        interrupt: Interrupt,
    ) -> Completion:
        """Generate until a stop string, the end of the answer or a bound; `on_text` gets each piece as it is made.

        Cancellation: by the return value of `on_text` (False), and by `interrupt`, which is looked at after every
        token and every `native_server.BATCH_TOKENS` of the prompt. The call then returns at once; the slot does one
        more step at most.

        Args:
            prompt: as the model is to see it; markers of special tokens in it count as such.
            fence: of the turn; the prefix is its session's. A turn that is not the newest of its lane any more is
                cancelled, and what one wrote that did not come to its end is not counted as there.
            max_tokens: at most this many are generated; fewer where the context ends.
            temperature: 0 is greedy.
            stop: strings that end the answer; they are not part of it.
            loop_penalty: multiplier of the DRY penalty (llama.cpp's ``dry_multiplier``) on repeating what was said
                already; 0 is off.
            judged: a special token whose probability after the prompt is wanted (`Completion.judged`): 0 where 20
                others are more likely. Such a request waits behind all others for a slot.
            on_text: takes one piece of whole characters.
            interrupt: made by `interrupt()`.

        Raises:
            StageError: the engine refused or failed, or it is closed.
        """
        # Who wants no more than to know is reading ahead: an answer that somebody waits for comes first.
        slot = self._acquire(fence, interrupt, later=judged is not None)
        if slot is None:
            return Completion(reason="cancelled", input_tokens=0, cached_tokens=0, output_tokens=0)
        reader = CompletionReader(
            on_text=on_text,
            over=lambda: interrupt.is_set or self._closing,
            judged=self._token(judged) if judged is not None else None,
        )
        request: dict[str, object] = {
            "prompt": prompt,
            "n_predict": max_tokens,
            "temperature": temperature,
            "stop": list(stop),
            "dry_multiplier": loop_penalty,
            "dry_sequence_breakers": ["\n"],
            "id_slot": slot.index,
            "cache_prompt": True,
            "stream": True,
            "return_progress": True,
        }
        if judged is not None:
            request["n_probs"] = _LIKELIEST
        try:
            self._server.complete(request, reader)
        finally:
            with self._changed:
                self._read_tokens += reader.read_tokens
                self._read_ms += reader.read_ms
                self._slots.give_back(slot, fence, cached=reader.cached, prompt=reader.prompt, held=reader.held)
                self._time.end(fence.session_id, time.monotonic())
                self._changed.notify_all()
        return reader.result()

    def _token(self, text: str) -> int:
        """The id of a special token."""
        token = self._tokens.get(text)
        if token is None:
            token = self._tokens[text] = self._server.door.tokens(text)[0]
        return token

    def _acquire(self, fence: Fence, interrupt: Interrupt, *, later: bool) -> KvSlot | None:
        with self._changed:
            self._line.join(interrupt, fence.session_id, later=later)
            try:
                return self._wait(fence, interrupt)
            finally:
                self._line.leave(interrupt)
                self._changed.notify_all()

    def _wait(self, fence: Fence, interrupt: Interrupt) -> KvSlot | None:
        while not interrupt.is_set:
            if self._closing:
                raise StageError("the language model has been shut down", stage="llama")
            try:
                slot = self._slots.acquire(fence) if self._line.is_due(interrupt) else None
            except StaleState:
                return None
            if slot is not None:
                self._time.begin(fence.session_id, time.monotonic())
                return slot
            self._changed.wait()
        return None

    def _read_s(self, tokens: int) -> float:
        """What so many tokens of a prompt take, by all that were read until now."""
        return tokens * (self._read_ms / 1000 / self._read_tokens if self._read_tokens else _TOKEN_S)

    def warm(self, prompt: str) -> None:
        """Have the beginning of `prompt` in every slot: read it once, and copy it into the others.

        Before the first conversation. Raises StageError.
        """
        fences = [Fence(f"warm-{number}", 0, MAIN, 1) for number in range(self._slots.count)]
        self.generate(
            prompt,
            fence=fences[0],
            max_tokens=1,
            temperature=0.0,
            stop=(),
            on_text=lambda piece: True,
            interrupt=self.interrupt(),
        )
        with self._changed:
            store = self._slots.store
            copy = store.snapshot(StateKey(fences[0].session_id, KV))
            for fence in fences[1:]:
                self._slots.fill(fence, copy)
            for fence in fences:
                self.release(fence.session_id)

    def spent(self, session_id: str) -> float:
        """Seconds that the engine has worked for a conversation; while it does so for several, each has its part.

        The engine's own seconds, not a processor's: while the machine is busy with other things they count as well.
        """
        with self._changed:
            return self._time.spent(session_id, time.monotonic())

    def release(self, session_id: str) -> None:
        """The conversation is over: its slot may be used for another. Nothing is known of its time any more."""
        with self._changed:
            self._slots.release(session_id)
            self._time.forget(session_id)

    @property
    def store(self) -> StateStore[KvSlot]:
        """The books, to be looked at and not to be changed."""
        return self._slots.store

    def refs(self, session_id: str | None = None) -> tuple[StateRef, ...]:
        """The prefixes that are kept: of one conversation, or of all."""
        with self._changed:
            return self._slots.store.refs(session_id)

    def counted(self) -> dict[str, int]:
        """What has become of prefixes so far: how many were evicted, and tokens that were read again for that."""
        with self._changed:
            evictions = self._slots.store.counters["evictions"]
            return {"state_evictions": evictions, "state_rebuilt_tokens": self._slots.rebuilt_tokens}

    def check_integrity(self) -> list[str]:
        """One sentence for each difference between the ledger and what llama.cpp has in its slots; waits for it.

        Raises:
            StageError: the engine does not answer.
        """
        with self._changed:
            resting = self._slots.resting()
        reports = self._server.door.slots()
        with self._changed:
            return self._slots.check_integrity(reports, since=resting)

    def count_tokens(self, text: str) -> int:
        """Exact number of tokens of `text` in a prompt; takes about half a millisecond. Raises StageError."""
        return len(self._server.door.tokens(text))

    def close(self) -> None:
        """End what runs, and give back threads, memory and the socket. Further calls fail; closing twice is fine."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._slots.busy)
            self._server.close()
