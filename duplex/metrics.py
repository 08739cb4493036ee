"""What `/metrics` says, in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


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
    """Reads the server whenever it is asked; keeps no figures of its own.

    Args:
        read: takes one look.
    """

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)

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
