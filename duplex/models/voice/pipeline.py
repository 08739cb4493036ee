"""The default voice: real models behind every stage of `VOICE`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from duplex.connector.base import Connector
from duplex.engine.base import Engine, Lane
from duplex.engine.kv import KvSlot
from duplex.engine.pool import WorkerPool
from duplex.engine.pooled import PooledEngine
from duplex.engine.worker import WorkerFactory
from duplex.errors import StageError
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
_PRIORITY = {"listen": 0, "code2wav": 1, "talk": 2, "endpoint": 2, "hear": 3}

_LAST = 9
"""Of a question about the engines themselves."""

_INBOX = {"listen": 1024, "endpoint": 1024, "hear": 8192, "think": 16, "talk": 1024, "code2wav": 256}
"""Chunks that may wait for one request; `hear` takes whole files that come faster than real time."""


class VoicePipeline:
    """Engines for every stage of `graph.VOICE`, sharing two pools of threads.

    Args:
        path: where a model file lies, by its key in the store.
        connector: carries the payloads.
        sessions: at one time, whether anything is said in them or not.
        prefix_caches: conversations whose history the language model keeps at hand, and that it answers at once.
        workers: threads that run the small models.
        context_tokens: context of the language model, per conversation.
        llama_threads, llama_batch_threads: threads that generate, and that read prompts.
    """

    def __init__(
        self,
        *,
        path: Callable[[str], Path],
        connector: Connector,
        sessions: int,
        prefix_caches: int,
        workers: int,
        context_tokens: int,
        llama_threads: int,
        llama_batch_threads: int,
    ) -> None:
        self._connector = connector
        self._sessions = sessions
        self._workers = workers
        self._width = (llama_threads + llama_batch_threads) / 2
        self._model: SmolLM2 | None = None
        gguf = path("smollm2/quick.gguf")

        def load_model() -> SmolLM2:
            self._model = SmolLM2(
                model=gguf,
                owner="think",
                caches=prefix_caches,
                context_tokens=context_tokens,
                threads=llama_threads,
                batch_threads=llama_batch_threads,
            )
            self._model.warm(INSTRUCTIONS)
            return self._model

        listen = ListenStage(vad=path("silero/vad.onnx"))
        endpoint = EndpointStage(detector=path("smart_turn/end_of_turn.onnx"))
        hear = HearStage(
            encoder=path("moonshine/encoder.ort"),
            decoder=path("moonshine/decoder.ort"),
            tokenizer=path("moonshine/tokenizer.json"),
        )
        think = ThinkStage(load_model=load_model)
        talk = TalkStage(acoustic=path("hibari/acoustic.onnx"))
        code2wav = Code2WavStage()
        self._pool = WorkerPool(threads=workers, name="stages", capacity=4096, reserved=1)
        # A thread that thinks sleeps in native code for as long as an answer takes; another one may read ahead.
        self._thinking = WorkerPool(threads=2 * prefix_caches, name="think", capacity=8 * sessions)
        self._pooled = {
            "think": self._engine("think", think, think.load, pool=self._thinking, priority=0),
            "listen": self._engine("listen", listen, listen.load),
            "endpoint": self._engine("endpoint", endpoint, endpoint.load),
            "hear": self._engine("hear", hear, hear.load),
            "talk": self._engine("talk", talk, talk.load),
            "code2wav": self._engine("code2wav", code2wav, code2wav.load),
        }

    @property
    def engines(self) -> Mapping[str, Engine]:
        """By stage."""
        return self._pooled

    def _engine(
        self,
        stage: str,
        factory: WorkerFactory,
        load: Callable[[], None] | None,
        *,
        pool: WorkerPool | None = None,
        priority: int | None = None,
    ) -> PooledEngine:
        return PooledEngine(
            stage=stage,
            factory=factory,
            connector=self._connector,
            pool=pool or self._pool,
            priority=_PRIORITY[stage] if priority is None else priority,
            load=load,
            max_requests=16 * self._sessions,
            max_inbox=_INBOX[stage],
        )

    def active(self) -> dict[str, int]:
        """Requests alive, by stage."""
        return {stage: engine.active for stage, engine in self._pooled.items()}

    def lanes(self) -> dict[str, Lane]:
        """What the stages share the time of, the machine's cores aside: the pool's threads, and the language model's
        loop, which works for all conversations in turns."""
        pooled = dict.fromkeys(self._pooled.keys() - {"think"}, 1.0)
        return {
            "workers": Lane(most=self._workers, weights=pooled),
            "think": Lane(most=1.0, weights={"think": 1.0}),
        }

    def widths(self) -> dict[str, float]:
        """Cores that each stage keeps busy while it works; the language model reads for half of its time or less."""
        return dict.fromkeys(self._pooled, 1.0) | {"think": self._width}

    def spent(self, session_id: str) -> dict[str, float]:
        """Seconds that each stage has worked for a session."""
        spent = {stage: engine.spent(session_id) for stage, engine in self._pooled.items()}
        if self._model is not None:
            spent["think"] = self._model.state.spent(session_id)  # its thread is asleep meanwhile
        return spent

    def release(self, session_id: str) -> None:
        """A conversation is over: its prefix cache may serve another. Calling it twice is fine."""
        for engine in self._pooled.values():
            engine.forget(session_id)
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
        if self._model is None:
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
        self._thinking.close()
        self._pool.close()
        if self._model is not None:
            self._model.close()
