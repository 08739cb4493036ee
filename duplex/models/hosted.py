"""A family's engines in an engine process: what the process is told to call, and with what."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from duplex.connector.base import Connector, Handle
from duplex.engine.base import Engine, Sink, StageRequest
from duplex.errors import FamilyError
from duplex.heap import keep_small
from duplex.models.family import Pipeline, Resources
from duplex.models.registry import family
from duplex.models.store import ModelStore
from duplex.session.fence import Fence

SPEC = "duplex.models.hosted:engines"
"""The name of `engines`, for whoever starts the process."""


class Hosted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which engines, and what they may use; numbers and names only, since it travels.

    Attributes:
        family: its name.
        stages: those of this process.
        models_dir, models_owned: of the model store.
        sessions, workers, prefix_caches, context_tokens, llama_threads, llama_batch_threads: see `Resources`.
    """

    family: str
    stages: tuple[str, ...]
    models_dir: str
    models_owned: bool
    sessions: int
    workers: int = 2
    prefix_caches: int = 4
    context_tokens: int = 2048
    llama_threads: int = 1
    llama_batch_threads: int = 1

    def options(self) -> dict[str, Any]:
        """The same as a message may carry it."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return options


def engines(connector: Connector, options: dict[str, Any]) -> Mapping[str, Engine]:
    """Engines by stage, nothing of them loaded yet.

    Raises:
        FamilyError: the options are not those of a `Hosted`, or there is no such family.
        ModelStoreError: a model file is not here.
    """
    keep_small()
    try:
        hosted = msgspec.convert(options, Hosted)
    except msgspec.ValidationError as fault:
        raise FamilyError(f"an engine process was given wrong options: {fault}; make them by Hosted") from fault
    store = ModelStore(Path(hosted.models_dir), owned=hosted.models_owned)
    resources = Resources(
        path=store.path,
        connector=connector,
        sessions=hosted.sessions,
        workers=hosted.workers,
        prefix_caches=hosted.prefix_caches,
        context_tokens=hosted.context_tokens,
        llama_threads=hosted.llama_threads,
        llama_batch_threads=hosted.llama_batch_threads,
    )
    pipeline = family(hosted.family).build(hosted.stages, resources)
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
