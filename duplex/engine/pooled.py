"""The engine that runs a model's workers on a shared pool of threads."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from duplex.connector.base import Connector, Handle
from duplex.connector.payload import Payload
from duplex.engine.base import Sink, StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.engine.live import Chunk, LiveRequest
from duplex.engine.pool import WorkerPool
from duplex.engine.worker import Usage, WorkerFactory
from duplex.errors import ConnectorError, DuplexError, PoolFull, StageError, StaleFence, StateError, UnknownHandle
from duplex.session.fence import Fence

_log = logging.getLogger(__name__)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


class PooledEngine:
    """Runs one stage for many requests: a worker for each, and one job of the pool for each chunk of input.

    The jobs of one request run in the order of its input and never two at a time; after each the request queues
    again, so that requests take turns. Outputs are put into the connector under the request's own fence. Where the
    connector says that the fence is retired or the input is gone, the turn is over and the request ends in silence.
    Whatever else a worker raises becomes one `StageFailed` of that request.

    Threads: `submit`, `update` and `abort` belong to the event loop; workers, and most calls of the sink, run on the
    pool. The sink is called under the engine's lock, which is what makes `abort` exact: a call that has begun is over
    before `abort` returns, and none begins afterwards. It must therefore hop to the loop, never call an engine
    from a pool's thread.

    Args:
        stage: name of the stage in its graph.
        factory: makes the worker of a request; called on the pool.
        connector: where inputs are taken from and outputs are put.
        pool: runs the workers; closed by whoever made it, after `stop`.
        priority: of this engine's jobs in the pool.
        load: loads and warms up the model, on the pool, during `start`; None where there is nothing to load.
        max_requests: most requests alive; one more fails at once.
        max_inbox: most chunks that wait for one request. The policy when full is to fail that request: a gap in its
            input would be worse, and would go unseen.
    """

    def __init__(
        self,
        *,
        stage: str,
        factory: WorkerFactory,
        connector: Connector,
        pool: WorkerPool,
        priority: int,
        load: Callable[[], None] | None,
        max_requests: int,
        max_inbox: int,
    ) -> None:
        self._stage = stage
        self._factory = factory
        self._connector = connector
        self._pool = pool
        self._priority = priority
        self._load = load
        self._max_requests = max_requests
        self._max_inbox = max_inbox
        self._lock = threading.RLock()
        self._requests: dict[Fence, LiveRequest] = {}
        self._spent: dict[str, float] = {}
        self._sink: Sink | None = None
        self._on_drained: Callable[[], None] | None = None

    @property
    def active(self) -> int:
        """Requests whose worker is not closed yet; 0 where nothing leaked."""
        return len(self._requests)

    def spent(self, session_id: str) -> float:
        """CPU seconds that the pool's threads have worked for a session here; what still runs counts at its end.

        Threads of the model's own are not seen from here, nor is time in which a thread sleeps.
        """
        return self._spent.get(session_id, 0.0)

    def forget(self, session_id: str) -> None:
        """The session is over and will not be asked about again."""
        self._spent.pop(session_id, None)

    async def start(self, sink: Sink) -> None:
        """Load the model on the pool. Raises StageError where it cannot be loaded."""
        if self._load is not None:
            loop = asyncio.get_running_loop()
            loaded: asyncio.Future[StageError | None] = loop.create_future()

            def settle(error: StageError | None) -> None:
                if not loaded.done():
                    loaded.set_result(error)

            self._pool.submit(self._priority, partial(self._run_load, self._load, loop, settle))
            if (error := await loaded) is not None:
                raise error
        self._on_drained = None
        self._sink = sink

    async def stop(self) -> None:
        """Abort every request and return when each worker is closed. The pool stays."""
        loop = asyncio.get_running_loop()
        drained = asyncio.Event()
        with self._lock:
            self._sink = None
            self._on_drained = lambda: _wake(loop, drained)
            for fence in list(self._requests):
                self.abort(fence)
            if not self._requests:
                drained.set()
        await drained.wait()

    def submit(self, request: StageRequest) -> None:
        """Take a new request; its worker is made on the pool at once, so that it is ready when input comes.

        Raises:
            StateError: the engine is not running, or has a request of this fence already.
        """
        with self._lock:
            if self._sink is None:
                raise StateError(f"{self._stage}: the engine is not running")
            if request.fence in self._requests:
                raise StateError(f"{self._stage}: {request.fence} has a request already")
            if len(self._requests) >= self._max_requests:
                self._sink(self._failure(request.fence, f"has {self._max_requests} requests already; try again later"))
                return
            live = self._requests[request.fence] = LiveRequest(request, self._lock)
            self._spent.setdefault(request.fence.session_id, 0.0)
            self._enqueue(live)

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        """Give a request one more chunk; what comes after the final chunk, or for one that is over, is dropped."""
        with self._lock:
            live = self._requests.get(fence)
            if live is None or live.over or live.final:
                self._discard(handle)
            elif len(live.inbox) >= self._max_inbox:
                self._discard(handle)
                self._end(live, self._failure(fence, f"cannot keep up: {self._max_inbox} chunks wait already"))
                self._close_when_free(live)
            elif handle is not None or final:
                live.final = final
                live.inbox.append(Chunk(handle, final))
                if not live.queued:
                    self._enqueue(live)

    def abort(self, fence: Fence) -> None:
        """End a request: its `emit` returns False from now on, and no call of the sink for it outlasts this one."""
        with self._lock:
            live = self._requests.get(fence)
            if live is not None and not live.over:
                self._end(live, None)
                self._close_when_free(live)

    # What follows up to `_step` runs under the lock, on whichever thread called.

    def _enqueue(self, live: LiveRequest) -> None:
        live.queued = True
        try:
            self._pool.submit(self._priority, partial(self._step, live))
        except (PoolFull, StateError) as error:
            live.queued = False
            self._end(live, self._failure(live.request.fence, str(error)))
            self._close_when_free(live)

    def _end(self, live: LiveRequest, last_word: StageEvent | None) -> None:
        """Mark the request as over, say its last word if it has one, and give back the input that it will not use."""
        if live.over:
            return
        live.over = True
        while live.inbox:
            self._discard(live.inbox.popleft().handle)
        if last_word is not None and self._sink is not None:
            self._sink(last_word)

    def _close_when_free(self, live: LiveRequest) -> None:
        """See to it that a worker whose request is over is closed: by its own job if it has one, else by a new one."""
        live.cancel()
        if live.queued:
            return
        live.queued = True
        try:
            self._pool.submit(self._priority, partial(self._close, live))
        except (PoolFull, StateError):
            self._close(live)

    def _discard(self, handle: Handle | None) -> None:
        if handle is not None:
            with suppress(ConnectorError):  # gone with its fence, or with the process that it was in
                self._connector.take(handle)

    def _failure(self, fence: Fence, message: str) -> StageFailed:
        return StageFailed(fence=fence, stage=self._stage, error=StageError(message, stage=self._stage))

    # What follows runs on the pool's threads.

    def _step(self, live: LiveRequest) -> None:
        """Run one chunk of one request, then queue for the next one, or close."""
        fence = live.request.fence
        began_s = time.thread_time()
        try:
            usage = live.advance(self._factory, self._connector.take, partial(self._emit, live))
            if usage is not None:
                self._finish(live, usage)
        except (StaleFence, UnknownHandle):
            with self._lock:
                self._end(live, None)
        except Exception as error:  # the runner's boundary: a worker's failure is its request's, and no one else's
            # A StageError says itself what is wrong, and that may be no more than a long prompt.
            if isinstance(error, StageError):
                _log.warning("a worker gave up: %s", error)
            else:
                _log.warning("%s: a worker failed", self._stage, exc_info=error)
            # Foreign errors may quote what the user said; only our own messages are known not to.
            message = str(error) if isinstance(error, DuplexError) else f"failed with {type(error).__name__}"
            failed = error if isinstance(error, StageError) else StageError(message, stage=self._stage)
            with self._lock:
                self._end(live, StageFailed(fence=fence, stage=self._stage, error=failed))
        with self._lock:
            live.running = False
            if fence.session_id in self._spent:
                self._spent[fence.session_id] += time.thread_time() - began_s
            if not live.over:
                live.queued = False
                if live.inbox:
                    self._enqueue(live)
                return
        self._close(live)

    def _finish(self, live: LiveRequest, usage: Usage) -> None:
        finished = StageFinished(
            fence=live.request.fence,
            stage=self._stage,
            reason=usage.reason,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
        )
        with self._lock:
            self._end(live, finished)

    def _emit(self, live: LiveRequest, payload: Payload) -> bool:
        if live.over:
            return False
        fence = live.request.fence
        try:
            handle = self._connector.put(fence, payload)
        except StaleFence:
            with self._lock:
                self._end(live, None)
            return False
        with self._lock:
            if not live.over and self._sink is not None:
                self._sink(StageOutput(fence=fence, stage=self._stage, handle=handle))
                return True
        self._discard(handle)
        return False

    def _close(self, live: LiveRequest) -> None:
        if live.worker is not None:
            try:
                live.worker.close()
            except Exception as error:  # the runner's boundary: its last word is said, so this can only be reported
                _log.error("%s: a worker could not be closed", self._stage, exc_info=error)
        with self._lock:
            del self._requests[live.request.fence]
            if not self._requests and self._on_drained is not None:
                self._on_drained()

    def _run_load(
        self,
        load: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[StageError | None], None],
    ) -> None:
        failed: StageError | None = None
        try:
            load()
        except Exception as error:  # the runner's boundary: it goes on as StageError to whoever awaits `start`
            failed = StageError(f"cannot be loaded: {error}", stage=self._stage)
            failed.__cause__ = error
        loop.call_soon_threadsafe(settle, failed)
