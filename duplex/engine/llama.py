"""llama.cpp inside this process: one small language model, many conversations, a prefix cache for each.

The binding (`xllamacpp.Server`) runs llama.cpp's own HTTP server beside its Python calls and cannot be told not to.
What is left of it here: no TCP port, only a unix socket in a directory that this user alone can enter, behind a
random key, gone after `close` or at exit. The switchable endpoints are off; we use one ourselves, to count tokens.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# llama.cpp's threads meet some hundred times a batch, and OpenMP has them spin until the last one comes. Where that one
# has no core, the others burn theirs: beside two busy processes a prompt of 25 tokens took 3 s instead of 0.2. So many
# turns are some microseconds: as quick as spinning on an idle machine. The library reads this when it is loaded.
os.putenv("GOMP_SPINCOUNT", "1000")

import xllamacpp

from duplex.engine.share import SharedTime
from duplex.engine.slots import SlotTable
from duplex.engine.socket_dir import SocketDirectory
from duplex.errors import StageError

BATCH_TOKENS = 32
"""Prompt tokens that are computed at a time. Between two batches other slots get their next token and a cancelled
request ends, so this is the bound of both; half as many would cost a tenth of the speed."""

_REUSE_TOKENS = 32
"""Shortest run of tokens that is worth shifting to a new position where the prompt lost something before it."""

_FLASH_ATTENTION_OFF = 0
"""On a CPU it wins 6 % at 50 tokens and loses 40 % at 1,200: a conversation grows."""

_NEVER = -1
_ONE_HTTP_THREAD = 1
_HTTP_TIMEOUT_S = 10.0
_SILENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How a generation ended.

    Attributes:
        reason: ``stop``, ``length`` (the bound of the request or the context was reached) or ``cancelled``.
        input_tokens: tokens of the prompt, `cached_tokens` of which were not computed again.
        cached_tokens: see above.
        output_tokens: tokens generated.
    """

    reason: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int


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
        slots: conversations whose prefix is kept; as many generate at once, the others wait.
        context_tokens: room of one slot, for a prompt and its answer together.
        threads: that generate; 1 is fastest for a model of this size.
        batch_threads: that compute prompts.

    Raises:
        StageError: the file cannot be loaded.
    """

    def __init__(self, *, model: Path, slots: int, context_tokens: int, threads: int, batch_threads: int) -> None:
        self.context_tokens = context_tokens
        self.slots = slots
        self._changed = threading.Condition()
        self._table = SlotTable(slots=slots)
        self._time = SharedTime()
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
        # A native server that is closed before its loop has begun never ends (seen in this version); one answer proves
        # that it has.
        warm = {"prompt": " ", "n_predict": 1, "stream": True}
        reader = _Reader(on_text=lambda piece: True, over=lambda: False)
        self._server.handle_completions(warm, reader)
        reader.result()

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
        params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
        return params

    def interrupt(self) -> Interrupt:
        """A new handle by which one call of `generate` can be ended."""
        return Interrupt(self._changed)

    def generate(
        self,
        prompt: str,
        *,
        cache_key: str,
        max_tokens: int,
        temperature: float,
        stop: Sequence[str],
        loop_penalty: float = 0.0,
        on_text: Callable[[str], bool],
        interrupt: Interrupt,
    ) -> Completion:
        """Generate until a stop string, the end of the answer or a bound; `on_text` gets each piece as it is made.

        Cancellation: by the return value of `on_text` (False), and by `interrupt`, which is looked at after every
        token and every `BATCH_TOKENS` of the prompt. The call then returns at once; the slot does one more step
        at most.

        Args:
            prompt: as the model is to see it; markers of special tokens in it count as such.
            cache_key: whose prefix to use.
            max_tokens: at most this many are generated; fewer where the context ends.
            temperature: 0 is greedy.
            stop: strings that end the answer; they are not part of it.
            loop_penalty: multiplier of the DRY penalty (llama.cpp's ``dry_multiplier``) on repeating what was said
                already; 0 is off.
            on_text: takes one piece of whole characters.
            interrupt: made by `interrupt()`.

        Raises:
            StageError: the engine refused or failed, or it is closed.
        """
        slot = self._acquire(cache_key, interrupt)
        if slot is None:
            return Completion(reason="cancelled", input_tokens=0, cached_tokens=0, output_tokens=0)
        reader = _Reader(on_text=on_text, over=lambda: interrupt.is_set or self._closing)
        request = {
            "prompt": prompt,
            "n_predict": max_tokens,
            "temperature": temperature,
            "stop": list(stop),
            "dry_multiplier": loop_penalty,
            "id_slot": slot,
            "cache_prompt": True,
            "stream": True,
            "return_progress": True,
        }
        try:
            self._server.handle_completions(request, reader)
        finally:
            with self._changed:
                self._table.give_back(slot)
                self._time.end(cache_key, time.monotonic())
                self._changed.notify_all()
        return reader.result()

    def _acquire(self, cache_key: str, interrupt: Interrupt) -> int | None:
        with self._changed:
            while not interrupt.is_set:
                if self._closing:
                    raise StageError("the language model has been shut down", stage="llama")
                if (slot := self._table.acquire(cache_key)) is not None:
                    self._time.begin(cache_key, time.monotonic())
                    return slot
                self._changed.wait()
        return None

    def spent(self, cache_key: str) -> float:
        """Seconds that the engine has worked for a conversation; while it does so for several, each has its part.

        The engine's own seconds, not a processor's: while the machine is busy with other things they count as well.
        """
        with self._changed:
            return self._time.spent(cache_key, time.monotonic())

    def release(self, cache_key: str) -> None:
        """The conversation is over: its slot may be used for another. Nothing is known of its time any more."""
        with self._changed:
            self._table.release(cache_key)
            self._time.forget(cache_key)

    def count_tokens(self, text: str) -> int:
        """Exact number of tokens of `text` in a prompt, special ones included; takes about half a millisecond.

        Raises:
            StageError: the engine does not answer.
        """
        connection = _UnixConnection(self._socket)
        body = json.dumps({"content": text, "add_special": False, "parse_special": True})
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/tokenize", body, headers)
            tokens = json.loads(connection.getresponse().read())["tokens"]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise StageError("llama.cpp does not count tokens", stage="llama") from error
        finally:
            connection.close()
        return len(tokens)

    def close(self) -> None:
        """End what runs, and give back threads, memory and the socket. Further calls fail; closing twice is fine."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._table.busy)
            self._server = None
        self._directory.close()


class _Reader:
    """Takes the chunks of one streamed completion. Called by native code, into which nothing may be raised: whatever
    goes wrong is kept, ends the stream, and is raised by `result`."""

    def __init__(self, *, on_text: Callable[[str], bool], over: Callable[[], bool]) -> None:
        self._on_text = on_text
        self._over = over
        self._reason: str | None = None
        self._input = self._cached = self._output = 0
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
            self._input, self._cached = progress["total"], progress["cache"]
            return self._cancel_if(self._over())
        choice = chunk["choices"][0]
        going_on = not choice["text"] or self._on_text(choice["text"])
        if (timings := chunk.get("timings")) is not None:
            self._reason = choice["finish_reason"]
            self._input, self._cached = timings["cache_n"] + timings["prompt_n"], timings["cache_n"]
            self._output = timings["predicted_n"]
            return False
        self._output += 1
        return self._cancel_if(not going_on or self._over())

    def _cancel_if(self, over: bool) -> bool:
        if over:
            self._reason = "cancelled"
        return over

    def result(self) -> Completion:
        if self._failure is not None:
            raise self._failure
        if self._reason is None:
            raise StageError("llama.cpp ended without an answer", stage="llama")
        return Completion(
            reason=self._reason,
            input_tokens=self._input,
            cached_tokens=self._cached,
            output_tokens=self._output,
        )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_HTTP_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
