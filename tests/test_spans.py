"""spans and metrics: a turn that is over, as OpenTelemetry and Prometheus have it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duplex.metrics import Metrics, Reading
from duplex.orchestrator.trace import TraceLog
from duplex.session.fence import MAIN, Fence
from duplex.session.turnlog import Moment, TurnLog, TurnRecord
from duplex.spans import TurnSpans, exporting

FENCE = Fence("sess_a", 1, MAIN, 3)


def traces() -> TraceLog:
    log = TraceLog(capacity=8)
    for stage in ("talk", "think"):
        log.submitted(FENCE, stage, 100.1)
    log.fed(FENCE, "think", 100.15)
    log.gave(FENCE, "think", 100.2)
    log.gave(FENCE, "think", 100.3)
    log.finished(FENCE, "think", 100.4)
    return log


def moments() -> list[tuple[Moment, Fence | None]]:
    names = {"created": 100.1, "speech_end": 100.0, "first_text": 100.2, "first_audio": 100.35, "done": 101.0}
    return [(Moment(name=name, at_s=at_s), FENCE if name == "created" else None) for name, at_s in names.items()]


def over() -> TurnRecord:
    told: list[TurnRecord] = []
    log = TurnLog(capacity=4)
    log.on_over = told.append
    for moment, fence in moments():
        assert not told, "there is more to come"
        log.add("resp_a", "sess_a", moment, fence)
    (turn,) = told
    return turn


def ms(span: ReadableSpan, root: ReadableSpan) -> tuple[int, int]:
    assert span.start_time is not None
    assert span.end_time is not None
    assert root.start_time is not None
    return round((span.start_time - root.start_time) / 1e6), round((span.end_time - root.start_time) / 1e6)


def test_a_turn_is_a_trace() -> None:
    memory = InMemorySpanExporter()
    spans = TurnSpans(SimpleSpanProcessor(memory), clock=lambda: 101.0)
    spans.turn(over(), traces())
    found = memory.get_finished_spans()
    (root,) = (span for span in found if span.parent is None)
    assert root.name == "turn"
    assert root.attributes is not None
    assert root.attributes["duplex.session_id"] == "sess_a"
    assert [event.name for event in root.events] == ["speech_end", "created", "first_text", "first_audio", "done"]
    assert ms(root, root) == (0, 1000)
    assert {span.context.trace_id for span in found} == {root.context.trace_id}
    stages = {span.name: span for span in found if span.parent and span.parent.span_id == root.context.span_id}
    assert {name: ms(span, root) for name, span in stages.items()} == {"think": (100, 400), "talk": (100, 1000)}
    parts = {
        (stage, span.name): ms(span, root)
        for span in found
        for stage, one in stages.items()
        if span.parent and span.parent.span_id == one.context.span_id
    }
    assert parts == {("think", "queue"): (100, 150), ("think", "run"): (150, 400), ("talk", "queue"): (100, 1000)}
    assert stages["think"].attributes is not None
    assert stages["think"].attributes["duplex.chunks"] == 2
    spans.close()


def test_what_is_not_known_of_makes_no_span() -> None:
    memory = InMemorySpanExporter()
    spans = TurnSpans(SimpleSpanProcessor(memory), clock=lambda: 101.0)
    spans.turn(TurnRecord(response_id="resp_b", session_id="sess_a"), traces())
    assert memory.get_finished_spans() == ()
    spans.turn(over(), TraceLog(capacity=1))
    assert [span.name for span in memory.get_finished_spans()] == ["turn"]
    spans.close()


def test_a_collector_gets_them_and_one_that_is_gone_costs_nothing() -> None:
    arrived: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                raise AssertionError("nothing was said of compression")
            arrived.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        spans = TurnSpans(exporting(f"http://127.0.0.1:{server.server_port}/v1/traces"), clock=lambda: 101.0)
        spans.turn(over(), traces())
        spans.close()
        server.shutdown()
        thread.join()
    (request,) = arrived
    (resource,) = request.resource_spans
    assert "turn" in {span.name for scope in resource.scope_spans for span in scope.spans}


@pytest.mark.timeout(30)
def test_nobody_waits_for_a_collector_that_is_not_there() -> None:
    spans = TurnSpans(exporting("http://127.0.0.1:9/v1/traces"), clock=lambda: 101.0)
    spans.turn(over(), traces())
    spans.close()


def test_turns_and_stages_are_measured() -> None:
    metrics = Metrics(lambda: Reading(gauges={}, events={}, dropped={}, active={}))
    metrics.turn(over(), traces())
    page = metrics.text()
    assert 'duplex_turn_seconds_bucket{le="0.3",moment="first_audio"} 0.0' in page
    assert 'duplex_turn_seconds_bucket{le="0.35",moment="first_audio"} 1.0' in page or (
        'duplex_turn_seconds_bucket{le="0.4",moment="first_audio"} 1.0' in page
    )
    assert 'duplex_stage_seconds_count{part="queue",stage="think"} 1.0' in page
    assert 'duplex_stage_seconds_count{part="run",stage="think"} 1.0' in page
    assert 'stage="talk"' not in page, "it had nothing to do"
