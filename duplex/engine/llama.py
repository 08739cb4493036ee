"""llama.cpp inside this process: one small language model, many conversations, prefix caches for some of them.

The binding (`xllamacpp.Server`) runs llama.cpp's own HTTP server beside its Python calls and cannot be told not to.
What is left of it here: no TCP port, only a unix socket in a directory that this user alone can enter, behind a
random key, gone after `close` or at exit. The switchable endpoints are off but for those that `side_door` uses.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# llama.cpp's threads meet some hundred times a batch, and OpenMP has them spin until the last one comes. Where that one
# has no core, the others burn theirs: beside two busy processes a prompt of 25 tokens took 3 s instead of 0.2. So many
# turns are some microseconds: as quick as spinning on an idle machine. The library reads this when it is loaded.
os.putenv("GOMP_SPINCOUNT", "1000")

import xllamacpp

from duplex.engine.completion import Completion, CompletionReader
from duplex.engine.kv import KvSlot
from duplex.engine.line import Line
from duplex.engine.share import SharedTime
from duplex.engine.side_door import SideDoor
from duplex.engine.slots import KV, KvSlots
from duplex.engine.socket_dir import SocketDirectory
from duplex.errors import StageError, StaleState
from duplex.session.fence import MAIN, Fence
from duplex.state.ref import StateKey, StateRef
from duplex.state.store import StateStore

BATCH_TOKENS = 32
"""Prompt tokens that are computed at a time. Between two batches other slots get their next token and a cancelled
request ends, so this is the bound of both; half as many would cost a tenth of the speed."""

_REUSE_TOKENS = 32
"""Shortest run of tokens that is worth shifting to a new position where the prompt lost something before it."""

_FLASH_ATTENTION_OFF = 0
"""On a CPU it wins 6 % at 50 tokens and loses 40 % at 1,200: a conversation grows."""

_LIKELIEST = 20
"""Tokens whose probability is told where one is judged."""

_NEVER = -1
_ONE_HTTP_THREAD = 1
_SILENT = -1

_FIRST = "one two three four five six seven eight nine ten " * 4
"""A prompt that is long enough for what a token takes to be read off a copy of its slot."""

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
        self._key = secrets.token_urlsafe(32)
        if not model.is_file():
            raise StageError(f"there is no model file {model.name}; fetch the models first", stage="llama")
        self._directory = SocketDirectory()
        self._socket = self._directory.socket
        try:
            self._server: Any = xllamacpp.Server(self._params(model, slots, context_tokens, threads, batch_threads))
        except RuntimeError as error:
            self._directory.close()
            message = (
                f"llama.cpp cannot load {model.name}: memory is short, or the file is broken; "
                "`duplex models verify` tells which"
            )
            raise StageError(message, stage="llama") from error
        self._door = SideDoor(path=self._socket, key=self._key)
        # A native server that is closed before its loop has begun never ends (seen in this version); one answer proves
        # that it has.
        warm = {"prompt": _FIRST, "n_predict": 1, "id_slot": 0, "stream": True}
        reader = CompletionReader(on_text=lambda piece: True, over=lambda: False)
        self._server.handle_completions(warm, reader)
        reader.result()
        tokens, copy = self._door.save(0)
        self.slot_bytes = self._door.slots()[0].room * -(-len(copy) // tokens)
        """Memory of one slot, by what llama.cpp writes of a token: keys, values, and some bytes of its place."""
        self._slots = KvSlots(
            owner=owner, slots=slots, slot_bytes=self.slot_bytes, copier=self._door, read_s=self._read_s
        )
        self._line = Line(could_run=self._slots.could_run)

    def _params(self, model: Path, slots: int, context_tokens: int, threads: int, batch_threads: int) -> Any:
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_parallel = slots
        params.n_ctx = slots * context_tokens
        params.kv_unified = False
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        params.n_cache_reuse = _REUSE_TOKENS
        params.flash_attn_type = _FLASH_ATTENTION_OFF
        params.slot_prompt_similarity = 0.0  # we choose the slot
        params.cache_ram_mib = 0  # prefixes live in their slots, nowhere else
        params.n_ctx_checkpoints = 0
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = batch_threads
        params.cpuparams.poll = params.cpuparams_batch.poll = 0  # idle threads sleep
        params.verbosity = _SILENT
        params.sse_ping_interval = _NEVER
        params.hostnames = [str(self._socket)]
        params.api_keys = [self._key]
        params.n_threads_http = _ONE_HTTP_THREAD
        params.ui = params.endpoint_props = params.endpoint_metrics = False
        params.endpoint_slots = True
        params.slot_save_path = f"{self._socket.parent}/"
        return params

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
        token and every `BATCH_TOKENS` of the prompt. The call then returns at once; the slot does one more step
        at most.

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
                others are more likely.
            on_text: takes one piece of whole characters.
            interrupt: made by `interrupt()`.

        Raises:
            StageError: the engine refused or failed, or it is closed.
        """
        slot = self._acquire(fence, interrupt)
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
            "id_slot": slot.index,
            "cache_prompt": True,
            "stream": True,
            "return_progress": True,
        }
        if judged is not None:
            request["n_probs"] = _LIKELIEST
        try:
            self._server.handle_completions(request, reader)
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
            token = self._tokens[text] = self._door.tokens(text)[0]
        return token

    def _acquire(self, fence: Fence, interrupt: Interrupt) -> KvSlot | None:
        with self._changed:
            self._line.join(interrupt, fence.session_id)
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
        reports = self._door.slots()
        with self._changed:
            return self._slots.check_integrity(reports, since=resting)

    def count_tokens(self, text: str) -> int:
        """Exact number of tokens of `text` in a prompt; takes about half a millisecond. Raises StageError."""
        return len(self._door.tokens(text))

    def close(self) -> None:
        """End what runs, and give back threads, memory and the socket. Further calls fail; closing twice is fine."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._slots.busy)
            self._server = None
        self._directory.close()
