"""A family's stages in an engine process: what the process builds, by what the server tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from duplex.connector.base import Connector, Handle
from duplex.engine.base import Engine, Sink, StageRequest
from duplex.heap import keep_small
from duplex.models.family import Pipeline, Resources
from duplex.models.registry import family
from duplex.models.store import ModelStore
from duplex.session.fence import Fence


class Hosted(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told: the family, its stages there, and `Resources` but for what the process itself has."""

    family: str
    stages: tuple[str, ...]
    models_dir: str
    owned: bool
    sessions: int
    workers: int
    prefix_caches: int
    context_tokens: int
    llama_threads: int
    llama_batch_threads: int


def options(stages: tuple[str, ...], *, name: str, store: ModelStore, resources: Resources) -> dict[str, Any]:
    """`Hosted` as a message can carry it."""
    hosted = Hosted(
        family=name,
        stages=stages,
        models_dir=str(store.directory),
        owned=store.owned,
        sessions=resources.sessions,
        workers=resources.workers,
        prefix_caches=resources.prefix_caches,
        context_tokens=resources.context_tokens,
        llama_threads=resources.llama_threads,
        llama_batch_threads=resources.llama_batch_threads,
    )
    return {str(key): value for key, value in msgspec.to_builtins(hosted).items()}


def engines(connector: Connector, given: dict[str, Any]) -> Mapping[str, Engine]:
    """The engines of this process, by stage.

    Raises:
        FamilyError, ModelStoreError: the family or one of its files is not here.
    """
    keep_small()
    hosted = msgspec.convert(given, Hosted)
    pipeline = family(hosted.family).build(
        hosted.stages,
        Resources(
            path=ModelStore(Path(hosted.models_dir), owned=hosted.owned).path,
            connector=connector,
            sessions=hosted.sessions,
            workers=hosted.workers,
            prefix_caches=hosted.prefix_caches,
            context_tokens=hosted.context_tokens,
            llama_threads=hosted.llama_threads,
            llama_batch_threads=hosted.llama_batch_threads,
        ),
    )
    running = set(pipeline.engines)
    return {stage: HostedEngine(stage, engine, pipeline, running) for stage, engine in pipeline.engines.items()}


class HostedEngine:
    """An engine of a pipeline that is the whole of its process: what sessions cost and keep is the pipeline's to say,
    and the pipeline is closed with the last of its engines.

    Args:
        stage: its name.
        engine: runs it.
        pipeline: of all the stages here.
        running: those of them that are not stopped yet; shared between them.
    """

    def __init__(self, stage: str, engine: Engine, pipeline: Pipeline, running: set[str]) -> None:
        self._stage = stage
        self._engine = engine
        self._pipeline = pipeline
        self._running = running

    async def start(self, sink: Sink) -> None:
        await self._engine.start(sink)

    async def stop(self) -> None:
        await self._engine.stop()
        self._running.discard(self._stage)
        if not self._running:
            await asyncio.to_thread(self._pipeline.close)

    def submit(self, request: StageRequest) -> None:
        self._engine.submit(request)

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        self._engine.update(fence, handle, final=final)

    def abort(self, fence: Fence) -> None:
        self._engine.abort(fence)

    @property
    def active(self) -> int:
        """Requests alive."""
        return self._pipeline.active()[self._stage]

    def spent(self, session_id: str) -> float:
        """Seconds that this stage has worked for a session."""
        return self._pipeline.spent(session_id).get(self._stage, 0.0)

    def forget(self, session_id: str) -> None:
        """The session is over; the first stage that hears of it lets all of the pipeline's state for it go."""
        self._pipeline.release(session_id)
