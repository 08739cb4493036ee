"""The composition root: builds everything, owns the one TaskGroup, shuts down in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
import uvloop

from duplex import capacity
from duplex.census import Census, census
from duplex.config import ServerConfig
from duplex.connector.memory import MemoryConnector
from duplex.errors import ConfigError
from duplex.heap import keep_small
from duplex.inspection import Inspection, inspection
from duplex.metrics import Metrics, Reading
from duplex.models.family import Pipeline, Resources
from duplex.models.registry import family
from duplex.models.store import ModelStore
from duplex.orchestrator.core import Orchestrator
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.orchestrator.trace import TraceLog
from duplex.placing import ARENA_BYTES, PlacedPipeline, SharedConnector, placed
from duplex.session.admission import Admission
from duplex.session.holdings import HOST_MEMORY
from duplex.session.host import Host
from duplex.session.ring import ring_bytes
from duplex.session.settings import Provisional, SessionLimits, SessionSettings
from duplex.session.stages import HEARING, LISTENING, SPEAKING
from duplex.session.tariff import Tariff
from duplex.session.turnlog import TurnRecord
from duplex.state.ref import StateRef
from duplex.transport.app import build_app
from duplex.transport.info import Served
from duplex.transport.serve import uvicorn_config
from duplex.warmup import warm_turn
from duplex.waterfall import Waterfall, waterfall

if TYPE_CHECKING:
    from duplex.spans import TurnSpans

log = logging.getLogger(__name__)

REQUESTS_PER_SESSION = 8
"""A session has two requests at work as a rule: it listens, and it recognises or answers."""

CONNECTOR_BYTES = 16 << 20
"""For each session: the slowest voice speaking the longest answer was seen to hold 10 MB before its time to be sent."""

MOST_CONNECTOR_BYTES = 512 << 20
"""For all sessions: far more can be attached than can talk at once."""

TURNS_KEPT = 256
REQUESTS_KEPT = 4 * TURNS_KEPT


class Server:
    """One server: engines, orchestrator, sessions, and what the transports ask of it (`transport.info.ServerInfo`).

    Raises:
        ConfigError, FamilyError, GraphError, ModelStoreError: the configuration, the model family, its graph or the
            model files are not in order.
    """

    def __init__(self, config: ServerConfig, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        limits, compute = config.limits, config.compute
        store = ModelStore(config.models_path, owned=config.models_dir is None)
        self.ready = False
        models = family(config.model)
        graph = models.graph
        if missing := {*LISTENING, *HEARING, *SPEAKING} - graph.stages.keys():
            raise ConfigError(
                f"the model family `{models.name}` has no stage {', '.join(sorted(missing))}, which a conversation "
                "needs: choose another with --model"
            )
        if compute.async_chunk is not None:
            graph = graph.with_async_chunk(compute.async_chunk == "on")
        graph = placed(graph, placement=compute.placement, replicas=compute.replicas)
        self.served = Served(
            voices=models.voices, transcriber=models.transcriber, ahead_ms=round(limits.audio_ahead_s * 1000)
        )
        budget_bytes = compute.connector_budget_bytes or min(
            CONNECTOR_BYTES * limits.max_sessions, MOST_CONNECTOR_BYTES
        )
        self.connector: MemoryConnector | SharedConnector
        self.pipeline: Pipeline
        resources = partial(
            Resources,
            path=store.path,
            sessions=limits.max_sessions,
            prefix_caches=compute.prefix_caches,
            workers=compute.workers,
            context_tokens=compute.context_tokens,
            llama_threads=compute.llama_threads,
            llama_batch_threads=compute.llama_batch_threads,
        )
        if graph.hosts:
            self.connector = shared = SharedConnector(min(budget_bytes, ARENA_BYTES))
            self.pipeline = PlacedPipeline(
                models=models,
                graph=graph,
                store=store,
                resources=resources(connector=shared),
                connector=shared,
                tasks=tasks,
                clock=loop.time,
            )
        else:
            self.connector = MemoryConnector(budget_bytes=budget_bytes)
            self.pipeline = models.build(graph.stages, resources(connector=self.connector))
        self.orchestrator = OrchestratorRunner(
            core=Orchestrator(graph, capacity=REQUESTS_PER_SESSION * limits.max_sessions),
            engines=self.pipeline.engines,
            connector=self.connector,
            clock=loop.time,
            trace=TraceLog(capacity=REQUESTS_KEPT),
        )
        self.limits = SessionLimits(
            audio_ahead_s=limits.audio_ahead_s,
            provisional=Provisional(limits.provisional),
            max_turn_s=limits.max_turn_s,
            context_tokens=compute.context_tokens,
            idle_s=limits.idle_s,
            lifetime_s=limits.session_lifetime_s,
        )
        self.settings = SessionSettings(instructions=models.instructions)
        budget = capacity.budget(config, lanes=self.pipeline.lanes(), widths=self.pipeline.widths())
        price = capacity.declared(graph, ring_bytes=ring_bytes(self.limits))
        if (refusal := capacity.refusal(budget, price)) is not None:
            raise ConfigError(refusal)
        admission = Admission(
            budget=budget,
            tariff=Tariff(declared=price, oversubscribe=compute.oversubscribe),
            queue_length=limits.queue_length,
            queue_wait_s=limits.queue_wait_s,
        )
        self.host = Host(
            orchestrator=self.orchestrator,
            connector=self.connector,
            settings=self.settings,
            limits=self.limits,
            admission=admission,
            turns=TURNS_KEPT,
            mailbox_events=limits.mailbox_events,
            grace_s=limits.grace_s,
            clock=loop.time,
            state_budget_bytes=compute.state_budget_bytes,
            compute=self.pipeline.spent,
            on_release=self.pipeline.release,
        )
        self._metrics = Metrics(self._read)
        self._spans = _spans(config.otlp_endpoint, loop.time) if config.otlp_endpoint is not None else None
        self.host.turns.on_over = self._turn_over

    async def start(self) -> None:
        """Load every model, and run a warm turn. Raises StageError where something does not work."""
        log.info("loading the models")
        await self.orchestrator.start()
        heard = await warm_turn(self.host, self.settings, self.limits)
        log.info("one turn spoken to itself to warm up; %d characters of it recognised", len(heard))
        self.host.admission.rehearsed()
        self.ready = True

    async def stop(self) -> None:
        """Give everything back: sessions first, then engines, then threads. The transports are closed by now."""
        self.ready = False
        self.host.close()
        await self.orchestrator.stop()
        self.pipeline.close()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)

    def _turn_over(self, turn: TurnRecord) -> None:
        self._metrics.turn(turn, self.orchestrator.trace)
        if self._spans is not None:
            self._spans.turn(turn, self.orchestrator.trace)

    @property
    def sessions(self) -> int:
        return len(self.host.admission)

    def turn(self, response_id: str) -> Waterfall | None:
        """The waterfall of one of the newest turns."""
        record = self.host.turns.get(response_id)
        return waterfall(record, self.orchestrator.trace) if record is not None else None

    def census(self) -> Census:
        """Who is here, and what is left."""
        now = asyncio.get_running_loop().time()
        return census(self.host.admission, self.host.measure, now, detached=self.host.detached, refs=self._refs)

    def _refs(self, session_id: str) -> tuple[StateRef, ...]:
        return (*self.host.states.refs(session_id), *self.pipeline.refs(session_id))

    async def inspect(self) -> Inspection:
        """Prove that what is held is what the books say, or tell where it is not; waits for the engines."""
        findings = [*self.host.states.check_integrity(), *await self.pipeline.check_integrity()]
        return inspection((self.host.states, *self.pipeline.states), findings)

    def metrics(self) -> str:
        """The Prometheus page."""
        return self._metrics.text()

    def _read(self) -> Reading:
        admission = self.host.admission
        return Reading(
            gauges={
                "ready": (float(self.ready), "1 when a warm turn has run."),
                "sessions": (float(self.sessions), "Places taken by sessions."),
                "sessions_capacity": (float(admission.budget.sessions), "Most sessions at one time."),
                "sessions_waiting": (float(admission.waiting), "Clients that wait for a session."),
                "requests": (float(len(self.orchestrator.core)), "Requests alive in the orchestrator."),
                "connector_bytes": (float(self.connector.nbytes), "Payload bytes between stages."),
                "connector_payloads": (float(len(self.connector)), "Payloads between stages."),
                "conversation_bytes": (float(self.host.states.ledger.taken(HOST_MEMORY)), "All conversations."),
                "prefix_caches": (float(sum(map(len, self.pipeline.states))), "Conversations kept by an engine."),
                "tasks": (float(len(asyncio.all_tasks())), "Tasks of the event loop, the one that asks among them."),
            },
            events=dict(self.host.counters) | self.pipeline.counted(),
            dropped=dict(self.orchestrator.core.dropped),
            active=self.pipeline.active(),
        )


def _spans(endpoint: str, clock: Callable[[], float]) -> TurnSpans:
    if urlsplit(endpoint).scheme not in ("http", "https"):
        raise ConfigError(f"otlp_endpoint is {endpoint!r}: write an address such as http://127.0.0.1:4318/v1/traces")
    try:
        from duplex.spans import TurnSpans, exporting
    except ImportError as absent:
        raise ConfigError("otlp_endpoint needs OpenTelemetry: install duplex[otel], or leave it out") from absent
    return TurnSpans(exporting(endpoint), clock=clock)


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own handling of signals: sessions must end before it does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Never installed."""


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --port, or `make run PORT=N`"
        ) from error
    listening.set_inheritable(True)
    return listening


async def _serve(config: ServerConfig) -> int:
    listening = _listen(config.http.host, config.http.port)
    with contextlib.closing(listening):
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        async with asyncio.TaskGroup() as restarts:  # they end with the engines, and those with the server
            server = Server(config, restarts)
            try:
                await _run(server, config, listening, stopping)
            finally:
                await server.stop()
    log.info("stopped")
    return 0


async def _run(server: Server, config: ServerConfig, listening: socket.socket, stopping: asyncio.Event) -> None:
    """Serve until told to stop, or until something that cannot fail has failed."""
    app = build_app(host=server.host, info=server, settings=config.http, web=config.http.web_path)
    host, port = listening.getsockname()[:2]
    web = _Uvicorn(
        uvicorn_config(
            app=app, settings=config.http, shutdown_s=config.http.shutdown_s, port=port, host=config.http.host
        )
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.host.run(), name="sessions")
        serving = tasks.create_task(web.serve(sockets=[listening]), name="http")
        starting = tasks.create_task(server.start(), name="start")
        stop = tasks.create_task(stopping.wait(), name="signals")
        try:
            await asyncio.wait({starting, stop, serving}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and starting.exception() is None:
                shown = f"[{host}]" if ":" in host else host
                print(f"ready: http://{shown}:{port}/", flush=True)
                await asyncio.wait({stop, serving}, return_when=asyncio.FIRST_COMPLETED)
                log.info("stopping")
        finally:
            starting.cancel()
            stop.cancel()
            server.host.close()
            # Sooner, and whoever is still to be told is cut off in the middle of it.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(server.host.left(), config.http.shutdown_s)
            web.should_exit = True
            await asyncio.wait({serving})


def serve(config: ServerConfig) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code. Raises DuplexError where the server cannot start."""
    keep_small()
    logging.basicConfig(level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if config.log_level == "info":
        # It is the name of all that uvicorn says; "INFO uvicorn.error: connection open" reads like trouble.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_serve(config))
        except BaseExceptionGroup as group:
            raise _innermost(group) from group


def _innermost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one cause where there is only one, so that a person reads a sentence and not a tree."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
