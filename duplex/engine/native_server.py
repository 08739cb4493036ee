"""llama.cpp's own server inside this process, loaded and ready.

The binding (`xllamacpp.Server`) runs llama.cpp's own HTTP server beside its Python calls and cannot be told not to.
What is left of it here: no TCP port, only a unix socket in a directory that this user alone can enter, behind a
random key, gone after `close` or at exit. The switchable endpoints are off but for those that `side_door` uses.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

# llama.cpp's threads meet some hundred times a batch, and OpenMP has them spin until the last one comes. Where that one
# has no core, the others burn theirs: beside two busy processes a prompt of 25 tokens took 3 s instead of 0.2. So many
# turns are some microseconds: as quick as spinning on an idle machine. The library reads this when it is loaded.
os.putenv("GOMP_SPINCOUNT", "1000")

import xllamacpp

from duplex.engine.completion import CompletionReader
from duplex.engine.side_door import SideDoor
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
_SILENT = -1

_FIRST = "one two three four five six seven eight nine ten " * 4
"""A prompt that is long enough for what a token takes to be read off a copy of its slot."""


class NativeServer:
    """Loads a GGUF model. Every method but `close` may be called from any thread.

    Args:
        model: the GGUF file.
        slots: requests that are computed at once.
        context_tokens: room of one slot, for a prompt and its answer together.
        threads: that generate.
        batch_threads: that compute prompts.

    Attributes:
        door: for what it does over HTTP alone.
        slot_bytes: memory of one slot, by what llama.cpp writes of a token: keys, values, and some bytes of its place.

    Raises:
        StageError: the file cannot be loaded.
    """

    def __init__(self, *, model: Path, slots: int, context_tokens: int, threads: int, batch_threads: int) -> None:
        self._key = secrets.token_urlsafe(32)
        if not model.is_file():
            raise StageError(f"there is no model file {model.name}; fetch the models first", stage="llama")
        self._directory = SocketDirectory()
        self.socket = self._directory.socket
        try:
            self._server: Any = xllamacpp.Server(self._params(model, slots, context_tokens, threads, batch_threads))
        except RuntimeError as error:
            self._directory.close()
            message = (
                f"llama.cpp cannot load {model.name}: memory is short, or the file is broken; "
                "`duplex models verify` tells which"
            )
            raise StageError(message, stage="llama") from error
        self.door = SideDoor(path=self.socket, key=self._key)
        # A native server that is closed before its loop has begun never ends (seen in this version); one answer proves
        # that it has.
        reader = CompletionReader(on_text=lambda piece: True, over=lambda: False)
        self.complete({"prompt": _FIRST, "n_predict": 1, "id_slot": 0, "stream": True}, reader)
        reader.result()
        tokens, copy = self.door.save(0)
        self.slot_bytes = self.door.slots()[0].room * -(-len(copy) // tokens)

    def _params(self, model: Path, slots: int, context_tokens: int, threads: int, batch_threads: int) -> Any:
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_parallel = slots
        params.n_ctx = slots * context_tokens
        params.kv_unified = False
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        params.n_cache_reuse = _REUSE_TOKENS
        params.flash_attn_type = _FLASH_ATTENTION_OFF
        params.slot_prompt_similarity = 0.0  # whoever asks chooses the slot
        params.cache_ram_mib = 0  # prefixes live in their slots, nowhere else
        params.n_ctx_checkpoints = 0
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = batch_threads
        params.cpuparams.poll = params.cpuparams_batch.poll = 0  # idle threads sleep
        params.verbosity = _SILENT
        params.sse_ping_interval = _NEVER
        params.hostnames = [str(self.socket)]
        params.api_keys = [self._key]
        params.n_threads_http = _ONE_HTTP_THREAD
        params.ui = params.endpoint_props = params.endpoint_metrics = False
        params.endpoint_slots = True
        params.slot_save_path = f"{self.socket.parent}/"
        return params

    def complete(self, request: dict[str, object], reader: CompletionReader) -> None:
        """Run one request of llama.cpp's completion endpoint on the calling thread; the reader gets the chunks."""
        self._server.handle_completions(request, reader)

    def close(self) -> None:
        """Give back threads, memory and the socket, once no request runs; closing twice is fine."""
        self._server = None
        self._directory.close()
