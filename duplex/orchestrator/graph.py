"""Which stages there are, and what flows between them. Declared by a model's folder, validated once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from duplex.errors import GraphError
from duplex.orchestrator.rules import Rules
from duplex.orchestrator.spec import Carrier, Edge, Lifetime, Placement, StageSpec

__all__ = ["Carrier", "Edge", "Lifetime", "Placement", "StageGraph", "StageSpec"]


class StageGraph:
    """An acyclic graph of stages.

    Args:
        name: of the model that it serves.
        stages: at least one.
        edges: at most one per (source, target, kind).
        devices: bytes of each device that the stages' budgets may take together, all replicas counted.

    Raises:
        GraphError: a name twice, an unknown stage, a kind that source does not give or target does not accept,
            an edge between lifetimes, a cycle, a stage whose output goes nowhere, a device over its budget, or a
            number, placement or connector that a stage or an edge cannot have.
    """

    def __init__(
        self,
        *,
        name: str,
        stages: Iterable[StageSpec],
        edges: Iterable[Edge],
        devices: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        declared = tuple(stages)
        self.name = name
        self.edges = tuple(edges)
        self.devices: Mapping[str, int] = MappingProxyType(dict(devices))
        self._order = Rules(name=name, stages=declared, edges=self.edges, devices=self.devices).check()
        self.stages = {stage.name: stage for stage in declared}

    @property
    def hosts(self) -> dict[str, tuple[str, ...]]:
        """By host: the stages in its process, in the order of their declaration; those inline are in none."""
        hosts: dict[str, tuple[str, ...]] = {}
        for stage in self.stages.values():
            if stage.placement == "process":
                hosts[stage.host] = (*hosts.get(stage.host, ()), stage.name)
        return hosts

    def downstream(self, stage: str) -> tuple[Edge, ...]:
        """Edges that leave `stage`."""
        return tuple(edge for edge in self.edges if edge.source == stage)

    def upstream(self, stage: str) -> tuple[Edge, ...]:
        """Edges that enter `stage`."""
        return tuple(edge for edge in self.edges if edge.target == stage)

    def with_async_chunk(self, on: bool) -> StageGraph:
        """The same graph with `async_chunk` on or off at every edge; between stages of the session it stays on."""
        edges = (replace(one, async_chunk=on or self.stages[one.source].lifetime == "session") for one in self.edges)
        return StageGraph(name=self.name, stages=self.stages.values(), edges=edges, devices=self.devices)

    def plan(self, names: Iterable[str]) -> tuple[str, ...]:
        """The named stages, upstream first.

        Raises:
            GraphError: one is unknown, or none of them has a final output.
        """
        wanted = set(names)
        unknown = wanted - self.stages.keys()
        if unknown:
            raise GraphError(f"graph {self.name} has no stage {', '.join(sorted(unknown))}")
        if not any(self.stages[name].final_output for name in wanted):
            raise GraphError(f"graph {self.name}: none of the stages {sorted(wanted)} has a final output")
        return tuple(name for name in self._order if name in wanted)
