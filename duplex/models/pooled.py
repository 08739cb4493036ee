"""A family's engines where each runs workers on threads: all that a simple family needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duplex.engine.base import Lane
from duplex.engine.pool import WorkerPool
from duplex.engine.pooled import PooledEngine
from duplex.state.ref import StateRef
from duplex.state.store import StateStore


class PooledPipeline:
    """A `Pipeline` whose engines share one pool, and keep nothing for a session between its requests.

    Args:
        engines: by stage.
        pool: runs them; closed with this.
        workers: threads of the pool that take any job.
    """

    def __init__(self, *, engines: Mapping[str, PooledEngine], pool: WorkerPool, workers: int) -> None:
        self._pooled = dict(engines)
        self._pool = pool
        self._workers = workers

    @property
    def engines(self) -> Mapping[str, PooledEngine]:
        return self._pooled

    @property
    def states(self) -> Sequence[StateStore[Any]]:
        return ()

    def active(self) -> dict[str, int]:
        return {stage: engine.active for stage, engine in self._pooled.items()}

    def lanes(self) -> dict[str, Lane]:
        return {"workers": Lane(most=self._workers, weights=dict.fromkeys(self._pooled, 1.0))}

    def widths(self) -> dict[str, float]:
        return dict.fromkeys(self._pooled, 1.0)

    def spent(self, session_id: str) -> dict[str, float]:
        return {stage: engine.spent(session_id) for stage, engine in self._pooled.items()}

    def release(self, session_id: str) -> None:
        for engine in self._pooled.values():
            engine.forget(session_id)

    def refs(self, session_id: str) -> tuple[StateRef, ...]:
        return ()

    def counted(self) -> dict[str, int]:
        return {}

    async def check_integrity(self) -> list[str]:
        return []

    def close(self) -> None:
        self._pool.close()
