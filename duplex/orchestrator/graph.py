"""Which stages there are, and what flows between them. Declared by a model's folder, validated once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from duplex.connector.payload import Kind
from duplex.errors import GraphError

Lifetime = Literal["session", "turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage.

    Attributes:
        name: unique in its graph.
        lifetime: ``session`` is fed for as long as the session lives, ``turn`` is one request per turn.
        accepts: payload kinds that it takes, from edges and from the session.
        gives: payload kinds that it makes.
        final_output: whether its output goes to the session; a request completes when each such stage has.
        load: seconds of its work per second of a session in use, for as long as nothing better is known: too much
            rather than too little.
        state_bytes: memory of the host that it keeps for one session at most; what is reserved at the start for all
            sessions, such as prefix caches, is none of it.
    """

    name: str
    lifetime: Lifetime
    accepts: frozenset[Kind]
    gives: frozenset[Kind]
    final_output: bool = False
    load: float = 0.0
    state_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Everything of `kind` that `source` makes goes to `target`."""

    source: str
    target: str
    kind: Kind


class StageGraph:
    """An acyclic graph of stages.

    Args:
        name: of the model that it serves.
        stages: at least one.
        edges: at most one per (source, target, kind).

    Raises:
        GraphError: a name twice, an unknown stage, a kind that source does not give or target does not accept,
            an edge between lifetimes, a cycle, or a stage whose output goes nowhere.
    """

    def __init__(self, *, name: str, stages: Iterable[StageSpec], edges: Iterable[Edge]) -> None:
        self.name = name
        self.edges = tuple(edges)
        self.stages: dict[str, StageSpec] = {}
        for stage in stages:
            if stage.name in self.stages:
                raise GraphError(f"graph {name}: stage {stage.name} is declared twice")
            self.stages[stage.name] = stage
        for edge in self.edges:
            self._check(edge)
        if len(set(self.edges)) != len(self.edges):
            raise GraphError(f"graph {name}: an edge is declared twice")
        for stage in self.stages.values():
            if not stage.final_output and not self.downstream(stage.name):
                raise GraphError(f"graph {name}: the output of stage {stage.name} goes nowhere")
        self._order = self._sorted()

    def _check(self, edge: Edge) -> None:
        for end in (edge.source, edge.target):
            if end not in self.stages:
                raise GraphError(f"graph {self.name}: an edge names the unknown stage {end}")
        source, target = self.stages[edge.source], self.stages[edge.target]
        if edge.kind not in source.gives or edge.kind not in target.accepts:
            raise GraphError(f"graph {self.name}: {edge.kind} cannot flow from {source.name} to {target.name}")
        if source.lifetime != target.lifetime:
            raise GraphError(f"graph {self.name}: {source.name} and {target.name} live for different times")

    def _sorted(self) -> tuple[str, ...]:
        sorter: TopologicalSorter[str] = TopologicalSorter({stage: () for stage in self.stages})
        for edge in self.edges:
            sorter.add(edge.target, edge.source)
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            raise GraphError(f"graph {self.name}: stages form a cycle: {' -> '.join(error.args[1])}") from error

    def downstream(self, stage: str) -> tuple[Edge, ...]:
        """Edges that leave `stage`."""
        return tuple(edge for edge in self.edges if edge.source == stage)

    def upstream(self, stage: str) -> tuple[Edge, ...]:
        """Edges that enter `stage`."""
        return tuple(edge for edge in self.edges if edge.target == stage)

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
