"""One request of a pooled engine, from `submit` until its worker is closed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from duplex.connector.base import Handle
from duplex.connector.payload import Kind, Payload
from duplex.engine.base import StageRequest
from duplex.engine.worker import Cancellable, Emit, Speculative, Usage, Worker, WorkerFactory


class Chunk(NamedTuple):
    """Input of a request; `final`: none follows."""

    handle: Handle | None
    final: bool


class LiveRequest:
    """A worker and the input that waits for it. Every attribute is guarded by the engine's lock.

    Args:
        request: what was submitted.
        lock: the engine's.

    Attributes:
        inbox: input that was not fed yet; nothing comes after the chunk that was `final`.
        queued: the right to touch the worker: True while a job of this request waits or runs, and there is never a
            second one.
        running: whether its worker is at work.
        over: whether its last word was said.
    """

    __slots__ = ("_lock", "final", "inbox", "over", "queued", "request", "running", "worker")

    def __init__(self, request: StageRequest, lock: threading.RLock) -> None:
        self._lock = lock
        self.request = request
        self.worker: Worker | None = None
        self.inbox: deque[Chunk] = deque()
        self.queued = False
        self.running = False
        self.final = False
        self.over = False

    def cancel(self) -> None:
        """Have a worker that is at work return soon, where it can."""
        if self.running and isinstance(self.worker, Cancellable):
            self.worker.cancel()

    def advance(self, factory: WorkerFactory, take: Callable[[Handle], Payload], emit: Emit) -> Usage | None:
        """Run one chunk, without the lock, on the thread whose job it is; returns what was used, where it was the last.

        Whatever the worker or `take` raises comes out.
        """
        with self._lock:
            if self.over:
                return None
            self.running = True
        if self.worker is None:
            self.worker = factory(self.request)
        with self._lock:
            if not self.inbox:
                return None
            chunk = self.inbox.popleft()
        if chunk.handle is not None:
            self.worker.feed(take(chunk.handle), emit)
        if chunk.final:
            return self.worker.finish(emit) if not self.over else None
        if not self.inbox and isinstance(self.worker, Speculative):
            self.worker.idle(emit, self._waits)
        return None

    def _waits(self, kind: Kind) -> bool:
        with self._lock:
            return self.over or any(
                chunk.final or (chunk.handle is not None and chunk.handle.kind is kind) for chunk in self.inbox
            )
