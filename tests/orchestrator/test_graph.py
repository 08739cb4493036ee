"""A stage graph is checked once, when it is made."""

from __future__ import annotations

import pytest

from duplex.connector.payload import Kind
from duplex.errors import GraphError
from duplex.orchestrator.graph import Edge, Lifetime, StageGraph, StageSpec


def stage(name: str, accepts: Kind, gives: Kind, *, final: bool = False, lifetime: Lifetime = "turn") -> StageSpec:
    return StageSpec(
        name=name,
        lifetime=lifetime,
        accepts=frozenset({accepts}),
        gives=frozenset({gives}),
        final_output=final,
    )


THINK = stage("think", Kind.PROMPT, Kind.TEXT, final=True)
TALK = stage("talk", Kind.TEXT, Kind.SPECTRUM)
WAV = stage("code2wav", Kind.SPECTRUM, Kind.VOICED, final=True)
WRITES = Edge(source="think", target="talk", kind=Kind.TEXT)
SOUNDS = Edge(source="talk", target="code2wav", kind=Kind.SPECTRUM)


def test_plans_are_upstream_first_whatever_the_declaration() -> None:
    graph = StageGraph(name="g", stages=[WAV, TALK, THINK], edges=[SOUNDS, WRITES])
    assert graph.plan(["code2wav", "think", "talk"]) == ("think", "talk", "code2wav")
    assert graph.plan(["think"]) == ("think",)


@pytest.mark.parametrize(
    ("stages", "edges", "complaint"),
    [
        ([THINK, THINK], [], "declared twice"),
        ([THINK, TALK, WAV], [WRITES, SOUNDS, WRITES], "the edge from `think` to `talk` for text is declared twice"),
        ([THINK], [WRITES], "unknown stage `talk`"),
        (
            [THINK, TALK, WAV],
            [Edge(source="think", target="code2wav", kind=Kind.TEXT)],
            "stage `code2wav` accepts no `text`; it accepts spectrum",
        ),
        ([THINK, TALK], [WRITES], "stage `talk` goes nowhere"),
        (
            [stage("a", Kind.TEXT, Kind.TEXT, final=True), stage("b", Kind.TEXT, Kind.TEXT)],
            [Edge(source="a", target="b", kind=Kind.TEXT), Edge(source="b", target="a", kind=Kind.TEXT)],
            "form a cycle",
        ),
        (
            [stage("a", Kind.TEXT, Kind.TEXT, lifetime="session"), stage("b", Kind.TEXT, Kind.TEXT, final=True)],
            [Edge(source="a", target="b", kind=Kind.TEXT)],
            "different times",
        ),
    ],
)
def test_refuses_what_cannot_work(stages: list[StageSpec], edges: list[Edge], complaint: str) -> None:
    with pytest.raises(GraphError, match=complaint):
        StageGraph(name="g", stages=stages, edges=edges)


def test_refuses_plans_that_lead_nowhere() -> None:
    graph = StageGraph(name="g", stages=[THINK, TALK, WAV], edges=[WRITES, SOUNDS])
    with pytest.raises(GraphError, match="no stage hear"):
        graph.plan(["hear"])
    with pytest.raises(GraphError, match="final output"):
        graph.plan(["talk"])
