"""A stage graph is checked once, when it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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


def test_what_shares_a_process() -> None:
    def placed(**where: Any) -> StageSpec:
        return replace(THINK, **where)

    alone, apart = placed(), placed(placement="process")
    assert alone.shares_process(placed(name="other"))
    assert not alone.shares_process(apart)
    assert not apart.shares_process(alone)
    assert placed(placement="process", host="h").shares_process(placed(name="o", placement="process", host="h"))
    assert not placed(placement="process", host="h").shares_process(placed(placement="process", host="i"))
    # A session may be bound to the first replica for one stage and to the second for the other.
    many = placed(placement="process", host="h", replicas=2)
    assert not many.shares_process(placed(name="o", placement="process", host="h", replicas=2))


def test_hosts_are_the_processes_there_will_be() -> None:
    stages = [
        replace(THINK, placement="process", host="speech"),
        replace(TALK, placement="process"),
        replace(WAV, placement="process", host="speech"),
    ]
    graph = StageGraph(name="g", stages=stages, edges=[WRITES, SOUNDS])
    assert graph.hosts == {"speech": ("think", "code2wav"), "talk": ("talk",)}
    assert StageGraph(name="g", stages=[THINK, TALK, WAV], edges=[WRITES, SOUNDS]).hosts == {}


def test_async_chunk_is_switched_for_all_edges_but_those_of_the_session() -> None:
    ear = stage("ear", Kind.PCM, Kind.PCM, lifetime="session")
    mind = stage("mind", Kind.PCM, Kind.SPEECH, lifetime="session", final=True)
    edges = [WRITES, replace(SOUNDS, async_chunk=False), Edge(source="ear", target="mind", kind=Kind.PCM)]
    graph = StageGraph(name="g", stages=[THINK, TALK, WAV, ear, mind], edges=edges, devices={"cpu": 1})
    assert [edge.async_chunk for edge in graph.with_async_chunk(False).edges] == [False, False, True]
    assert [edge.async_chunk for edge in graph.with_async_chunk(True).edges] == [True, True, True]
    assert graph.with_async_chunk(False).devices == {"cpu": 1}


def test_every_replica_takes_its_bytes() -> None:
    twice = replace(TALK, placement="process", replicas=2, budget_bytes={"gpu": 6})
    with pytest.raises(
        GraphError, match=r"device gpu has 16 bytes, and its stages take 17 \(think 5, talk 12\): lower"
    ):
        StageGraph(
            name="g",
            stages=[replace(THINK, budget_bytes={"gpu": 5}), twice, WAV],
            edges=[WRITES, SOUNDS],
            devices={"gpu": 16},
        )
