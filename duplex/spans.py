"""Turns as OpenTelemetry spans, sent over OTLP/HTTP: one trace a turn, its stages below it.

Only a server that is told where to send them imports the library (the extra `otel`). Sending is another thread's work,
behind a bounded queue that drops the newest when it is full: a collector that is slow or gone costs no turn anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, set_span_in_context

from duplex.orchestrator.trace import RequestTrace, StageTrace, TraceLog
from duplex.session.turnlog import TurnRecord

QUEUE_SPANS = 2048
_TIMEOUT_S = 5.0


def exporting(endpoint: str) -> SpanProcessor:
    """Sends spans to a collector, such as ``http://127.0.0.1:4318/v1/traces``."""
    # The library logs each failed attempt with its whole stack: once is enough, and the reason is in the message.
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").setLevel(logging.ERROR)
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S), max_queue_size=QUEUE_SPANS)


class TurnSpans:
    """Makes the spans of turns that are over.

    Args:
        processor: takes them.
        clock: the one that turns and stages were timed by, in seconds.
    """

    def __init__(self, processor: SpanProcessor, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        resource = Resource.create({"service.name": "duplex", "service.version": version("duplex")})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("duplex")

    def turn(self, turn: TurnRecord, traces: TraceLog) -> None:
        """One turn: ``turn`` from the end of the user's speech to its last moment, its moments as events; below it one
        span for each stage of each of its requests."""
        origin_s = turn.origin_s
        if origin_s is None:
            return
        shift_ns = time.time_ns() - round(self._clock() * 1e9)

        def at(at_s: float) -> int:
            return shift_ns + round(at_s * 1e9)

        moments = sorted(turn.moments, key=lambda moment: moment.at_s)
        attributes = {"duplex.session_id": turn.session_id, "duplex.response_id": turn.response_id}
        root = self._tracer.start_span("turn", start_time=at(origin_s), attributes=attributes)
        for moment in moments:
            value = {} if moment.value_ms is None else {"duplex.audio_ms": moment.value_ms}
            root.add_event(moment.name, value, at(moment.at_s))
        for fence in turn.fences:
            if (trace := traces.get(fence)) is not None:
                self._request(root, trace, at, until_s=moments[-1].at_s)
        root.end(at(moments[-1].at_s))

    def _request(self, root: Span, trace: RequestTrace, at: Callable[[float], int], *, until_s: float) -> None:
        for name, stage in trace.stages.items():
            self._stage(root, name, stage, at, epoch=trace.fence.epoch, lane=trace.fence.lane, until_s=until_s)

    def _stage(
        self,
        root: Span,
        name: str,
        stage: StageTrace,
        at: Callable[[float], int],
        *,
        epoch: int,
        lane: str,
        until_s: float,
    ) -> None:
        """``NAME``, and in it ``queue`` (ready, and nothing to work on yet) and ``run`` (from its first input on)."""
        end_s = stage.finished_s if stage.finished_s is not None else max(until_s, stage.submitted_s)
        attributes: dict[str, str | int | bool] = {
            "duplex.lane": lane,
            "duplex.epoch": epoch,
            "duplex.chunks": stage.chunks,
            "duplex.finished": stage.finished_s is not None,
        }
        span = self._tracer.start_span(
            name, set_span_in_context(root), start_time=at(stage.submitted_s), attributes=attributes
        )
        below = set_span_in_context(span)
        first_s = stage.first_input_s
        queue = self._tracer.start_span("queue", below, start_time=at(stage.submitted_s))
        queue.end(at(first_s if first_s is not None else end_s))
        if first_s is not None:
            run = self._tracer.start_span("run", below, start_time=at(first_s))
            if stage.first_output_s is not None:
                run.add_event("first_output", timestamp=at(stage.first_output_s))
            run.end(at(max(first_s, end_s)))
        span.end(at(end_s))

    def close(self) -> None:
        """Send what is left; waits for the collector no longer than its time-out."""
        self._provider.shutdown()
