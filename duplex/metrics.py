"""What `/metrics` says, in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from duplex.orchestrator.trace import TraceLog
from duplex.session.turnlog import TurnRecord

BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
MOMENTS = ("turn_end", "first_text", "first_audio")
"""Those that a listener waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at the server.

    Attributes:
        gauges: value and help by name.
        events: how often each kind of thing happened, by kind: admissions, drops, failures.
        dropped: what the orchestrator dropped because it came late, by kind.
        active: requests alive, by stage.
    """

    gauges: Mapping[str, tuple[float, str]]
    events: Mapping[str, int]
    dropped: Mapping[str, int]
    active: Mapping[str, int]


class Metrics:
    """Reads the server whenever it is asked; of its own it keeps how long turns and their stages took.

    Args:
        read: takes one look.
    """

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._turns = Histogram(
            "duplex_turn_seconds",
            "From the end of the user's speech to a moment of the answer.",
            ["moment"],
            registry=self._registry,
            buckets=BUCKETS_S,
        )
        self._stages = Histogram(
            "duplex_stage_seconds",
            "Of a stage in a turn: queue, from its submission to its first input, and run, from there to its end.",
            ["stage", "part"],
            registry=self._registry,
            buckets=BUCKETS_S,
        )

    def turn(self, turn: TurnRecord, traces: TraceLog) -> None:
        """A turn is over."""
        origin_s = turn.origin_s
        for moment in turn.moments:
            if origin_s is not None and moment.name in MOMENTS:
                self._turns.labels(moment.name).observe(max(0.0, moment.at_s - origin_s))
        for fence in turn.fences:
            trace = traces.get(fence)
            for name, stage in trace.stages.items() if trace is not None else ():
                if stage.first_input_s is not None:
                    self._stages.labels(name, "queue").observe(stage.first_input_s - stage.submitted_s)
                    if stage.finished_s is not None:
                        self._stages.labels(name, "run").observe(stage.finished_s - stage.first_input_s)

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: the registry then does not read at registration."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One look, as metric families; called by the registry."""
        reading = self._read()
        for name, (value, text) in reading.gauges.items():
            yield GaugeMetricFamily(f"duplex_{name}", text, value=value)
        yield _labelled("events", "What has happened, by kind.", "kind", reading.events)
        yield _labelled(
            "late", "What came too late or for no request and was dropped, by kind.", "kind", reading.dropped
        )
        active = GaugeMetricFamily("duplex_stage_requests", "Requests alive in a stage.", labels=["stage"])
        for stage, count in reading.active.items():
            active.add_metric([stage], count)
        yield active

    def text(self) -> str:
        """The whole page."""
        return generate_latest(self._registry).decode()


def _labelled(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"duplex_{name}", text, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family
