"""The default voice: real models behind every stage of `VOICE`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

from duplex.engine.base import Lane, StageRequest
from duplex.engine.kv import KvSlot
from duplex.engine.pool import WorkerPool
from duplex.engine.pooled import PooledEngine
from duplex.engine.worker import Worker
from duplex.errors import StageError
from duplex.models.family import Resources
from duplex.models.pooled import PooledPipeline
from duplex.models.smollm2.model import SmolLM2
from duplex.models.voice.code2wav import Code2WavStage
from duplex.models.voice.endpoint import EndpointStage
from duplex.models.voice.hear import HearStage
from duplex.models.voice.listen import ListenStage
from duplex.models.voice.talk import TalkStage
from duplex.models.voice.think import ThinkStage
from duplex.state.ref import StateRef
from duplex.state.store import StateStore

INSTRUCTIONS = "You are a friendly voice assistant. Answer in one or two short sentences."
"""What a session is told where its client says nothing."""

VOICES = ("heart",)
TRANSCRIBER = "moonshine-tiny-en"

# Who goes first where the machine is busy: an interruption must be noticed before anything else, audio that a listener
# waits for comes before audio that will be needed later, and so on to recognition.
# `think` has a pool of its own.
_PRIORITY = {"listen": 0, "code2wav": 1, "talk": 2, "endpoint": 2, "hear": 3, "think": 0}

_LAST = 9
"""Of a question about the engines themselves."""

_INBOX = {"listen": 1024, "endpoint": 1024, "hear": 8192, "think": 16, "talk": 1024, "code2wav": 256}
"""Chunks that may wait for one request; `hear` takes whole files that come faster than real time."""


class _Stage(Protocol):
    """Each stage of this folder: loads its model once, and makes a worker for each request."""

    def load(self) -> None: ...
    def __call__(self, request: StageRequest) -> Worker: ...


class VoicePipeline(PooledPipeline):
    """Engines for stages of `graph.VOICE`, sharing two pools of threads, of which one is for the language model.

    Args:
        stages: of which engines are wanted; the pools and models of others are not made.
        resources: the language model has as many contexts as there are prefix caches.
    """

    def __init__(self, *, stages: Collection[str], resources: Resources) -> None:
        self._model: SmolLM2 | None = None
        self._width = (resources.llama_threads + resources.llama_batch_threads) / 2
        makers: dict[str, Callable[[], _Stage]] = {
            "think": lambda: self._thinker(resources),
            "listen": lambda: ListenStage(vad=resources.path("silero/vad.onnx")),
            "endpoint": lambda: EndpointStage(detector=resources.path("smart_turn/end_of_turn.onnx")),
            "hear": lambda: HearStage(
                encoder=resources.path("moonshine/encoder.ort"),
                decoder=resources.path("moonshine/decoder.ort"),
                tokenizer=resources.path("moonshine/tokenizer.json"),
            ),
            "talk": lambda: TalkStage(acoustic=resources.path("hibari/acoustic.onnx")),
            "code2wav": Code2WavStage,
        }
        # Every file is looked for before a thread is started.
        made = {stage: make() for stage, make in makers.items() if stage in stages}
        pool = WorkerPool(threads=resources.workers, name="stages", capacity=4096, reserved=1)
        self._thinking: WorkerPool | None = None
        if "think" in made:
            # A thread that thinks sleeps in native code as long as an answer takes; another one may read ahead.
            threads, capacity = 2 * resources.prefix_caches, 8 * resources.sessions
            self._thinking = WorkerPool(threads=threads, name="think", capacity=capacity)
        engines = {
            stage: PooledEngine(
                stage=stage,
                factory=factory,
                connector=resources.connector,
                pool=self._thinking if stage == "think" and self._thinking is not None else pool,
                priority=_PRIORITY[stage],
                load=factory.load,
                max_requests=16 * resources.sessions,
                max_inbox=_INBOX[stage],
            )
            for stage, factory in made.items()
        }
        super().__init__(engines=engines, pool=pool, workers=resources.workers)

    def _thinker(self, resources: Resources) -> ThinkStage:
        gguf = resources.path("smollm2/q4_1.gguf")

        def load_model() -> SmolLM2:
            self._model = SmolLM2(
                model=gguf,
                owner="think",
                caches=resources.prefix_caches,
                context_tokens=resources.context_tokens,
                threads=resources.llama_threads,
                batch_threads=resources.llama_batch_threads,
            )
            self._model.warm(INSTRUCTIONS)
            return self._model

        return ThinkStage(load_model=load_model)

    def lanes(self) -> dict[str, Lane]:
        """What the stages share the time of, the machine's cores aside: the pool's threads, and the language model's
        loop, which works for all conversations in turns."""
        lanes = super().lanes()
        if "think" in self._pooled:
            lanes["workers"] = Lane(most=self._workers, weights=dict.fromkeys(self._pooled.keys() - {"think"}, 1.0))
            lanes["think"] = Lane(most=1.0, weights={"think": 1.0})
        return lanes

    def widths(self) -> dict[str, float]:
        """Cores that each stage keeps busy while it works; the language model reads for half of its time or less."""
        widths = super().widths()
        return widths | {"think": self._width} if "think" in widths else widths

    def spent(self, session_id: str) -> dict[str, float]:
        """Seconds that each stage has worked for a session."""
        spent = super().spent(session_id)
        if self._model is not None:
            spent["think"] = self._model.state.spent(session_id)  # its thread is asleep meanwhile
        return spent

    def release(self, session_id: str) -> None:
        """A conversation is over: its prefix cache may serve another. Calling it twice is fine."""
        super().release(session_id)
        if self._model is not None:
            self._model.state.release(session_id)

    def refs(self, session_id: str) -> tuple[StateRef, ...]:
        """The state that the engines hold for a session."""
        return self._model.state.refs(session_id) if self._model is not None else ()

    def counted(self) -> dict[str, int]:
        """What has become of the engines' state so far, by kind."""
        return self._model.state.counted() if self._model is not None else {}

    @property
    def states(self) -> tuple[StateStore[KvSlot], ...]:
        """The books of the engines' state."""
        return (self._model.state.store,) if self._model is not None else ()

    async def check_integrity(self) -> list[str]:
        """One sentence for each thing that an engine holds and its ledger does not say, or the other way round.

        Raises:
            PoolFull: too much waits for the engine already.
        """
        if self._model is None or self._thinking is None:
            return []
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()
        keeper = self._model.state

        def settle(findings: list[str]) -> None:
            if not found.done():
                found.set_result(findings)

        def check() -> None:
            try:
                findings = keeper.check_integrity()
            except StageError as error:
                findings = [str(error)]
            loop.call_soon_threadsafe(settle, findings)

        self._thinking.submit(_LAST, check)
        return await found

    def close(self) -> None:
        """Give back threads and models; the engines have been stopped before."""
        if self._thinking is not None:
            self._thinking.close()
        super().close()
        if self._model is not None:
            self._model.close()
