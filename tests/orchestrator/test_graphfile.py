"""A graph in TOML: what is right is read as it stands, and what is wrong is refused with its line and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.connector.payload import Kind
from duplex.errors import GraphError
from duplex.orchestrator.graph import Edge, StageGraph, StageSpec
from duplex.orchestrator.graphfile import parse, read
from duplex.orchestrator.toml_lines import Path as Place
from duplex.orchestrator.toml_lines import line_of
from tests.orchestrator.graphs import Table, Writer, declarations

STYLES = st.integers(0, 1 << 32).map(Random)


def built(declared: Table) -> StageGraph:
    """The same graph, made in Python."""
    return StageGraph(
        name=declared["name"],
        stages=[StageSpec(**table | kinds(table)) for table in declared["stage"]],
        edges=[Edge(**table | {"kind": Kind(table["kind"])}) for table in declared["edge"]],
        devices=declared["devices"],
    )


def kinds(table: Table) -> dict[str, frozenset[Kind]]:
    return {key: frozenset(map(Kind, table[key])) for key in ("accepts", "gives")}


@given(declared=declarations(), style=STYLES)
def test_what_is_written_is_read(declared: Table, style: Random) -> None:
    graph, expected = parse(Writer(style).write(declared), file="g.toml"), built(declared)
    assert (graph.name, graph.edges, graph.devices) == (expected.name, expected.edges, expected.devices)
    assert list(graph.stages.values()) == list(expected.stages.values())


Damage = Callable[[Table], tuple[Place, str]]
"""Breaks a declaration that has an edge between its first and another stage; returns where, and words of the error."""


def stage_of(declared: Table, key: str, value: Any, words: str, *, element: Place = ()) -> tuple[Place, str]:
    """Set `key` of the first edge's target."""
    index = next(i for i, one in enumerate(declared["stage"]) if one["name"] == declared["edge"][0]["target"])
    declared["stage"][index][key] = value
    return ("stage", index, key, *element), words


def put(table: Table, key: str, value: Any, path: Place, words: str) -> tuple[Place, str]:
    table[key] = value
    return path, words


def edge_of(declared: Table, key: str, value: Any, words: str) -> tuple[Place, str]:
    declared["edge"][0][key] = value
    return ("edge", 0, key), words


def without(table: Table, key: str, path: Place) -> tuple[Place, str]:
    table.pop(key)
    return path, f"has no `{key}`"


def twice(declared: Table) -> tuple[Place, str]:
    declared["stage"].append(declared["stage"][0] | {"host": "elsewhere", "placement": "process"})
    return ("stage", len(declared["stage"]) - 1, "name"), "stage `s0` is declared twice"


def edge_twice(declared: Table) -> tuple[Place, str]:
    one = {key: declared["edge"][0][key] for key in ("source", "target", "kind")}
    declared["edge"].append(one)
    return ("edge", len(declared["edge"]) - 1), "for " + one["kind"] + " is declared twice"


def no_such_kind(declared: Table) -> tuple[Place, str]:
    source, target = declared["edge"][0]["source"], declared["edge"][0]["target"]
    for stage in declared["stage"]:
        if stage["name"] == source:
            stage["gives"].append("mark")
        if stage["name"] == target:
            stage["accepts"] = sorted({*stage["accepts"], "pcm"} - {"mark"})
    # Other edges into the same stage may carry what it does not accept any more; the first is looked at first.
    return edge_of(declared, "kind", "mark", f"stage `{target}` accepts no `mark`; it accepts ")


def cycle(declared: Table) -> tuple[Place, str]:
    edge = declared["edge"][0]
    for stage in declared["stage"]:
        if stage["name"] == edge["target"]:
            stage["gives"] = [*{*stage["gives"], "text"}]
        if stage["name"] == edge["source"]:
            stage["accepts"] = [*{*stage["accepts"], "text"}]
    declared["edge"].append({"source": edge["target"], "target": edge["source"], "kind": "text"})
    return ("edge", len(declared["edge"]) - 1), "stages form a cycle, s"


def loop(declared: Table) -> tuple[Place, str]:
    stage = {"name": "self", "lifetime": "turn", "accepts": ["text"], "gives": ["text"], "final_output": True}
    declared["stage"].append(stage)
    declared["edge"].append({"source": "self", "target": "self", "kind": "text"})
    return ("edge", len(declared["edge"]) - 1), "stages form a cycle, self -> self"


def over_budget(declared: Table) -> tuple[Place, str]:
    declared["stage"][0].setdefault("budget_bytes", {})["cpu"] = 1
    declared["devices"]["cpu"] = 0
    return ("devices", "cpu"), "device cpu has 0 bytes, and its stages take "


def hosts_differ(declared: Table) -> tuple[Place, str]:
    for index in (0, 1):
        declared["stage"][index] |= {"placement": "process", "host": "h", "replicas": 1 + index}
    return ("stage", 1, "replicas"), "stages `s0` and `s1` share the host `h` and differ in replicas (1 and 2)"


def leads_nowhere(declared: Table) -> tuple[Place, str]:
    last = {"name": "end", "lifetime": "turn", "accepts": ["text"], "gives": ["text"]}
    declared["stage"].append(last)
    return ("stage", len(declared["stage"]) - 1, "name"), "the output of stage `end` goes nowhere"


def lifetimes_differ(declared: Table) -> tuple[Place, str]:
    index = int(declared["edge"][0]["target"][1:])
    for key in ("deadline_s", "pure"):
        declared["stage"][index].pop(key, None)
    declared["stage"][index]["lifetime"] = "session"
    return ("edge", 0, "target"), "live for different times"


def memory_apart(declared: Table) -> tuple[Place, str]:
    edge = declared["edge"][0]
    for stage in declared["stage"]:
        if stage["name"] == edge["target"]:
            stage |= {"placement": "process"}
        if stage["name"] == edge["source"]:
            stage |= {"placement": "process", "host": "another"}
    return edge_of(declared, "connector", "memory", "memory cannot carry from ")


def endless(key: str, value: Any, words: str) -> Damage:
    def damage(declared: Table) -> tuple[Place, str]:
        stage = {"name": "ear", "lifetime": "session", "accepts": ["pcm"], "gives": ["text"], "final_output": True}
        declared["stage"].append(stage | {key: value})
        return ("stage", len(declared["stage"]) - 1, key), words

    return damage


def endless_edge(declared: Table) -> tuple[Place, str]:
    for name, gives in (("ear", "pcm"), ("mind", "speech")):
        accepts = {"accepts": ["pcm"], "gives": [gives], "final_output": True}
        declared["stage"].append({"name": name, "lifetime": "session", **accepts})
    declared["edge"].append({"source": "ear", "target": "mind", "kind": "pcm", "async_chunk": False})
    return ("edge", len(declared["edge"]) - 1, "async_chunk"), "waits for the end of `ear`, which is the session's"


def inline(key: str, value: Any, words: str) -> Damage:
    def damage(declared: Table) -> tuple[Place, str]:
        index = int(declared["edge"][0]["target"][1:])
        for other in ("placement", "host", "replicas"):
            declared["stage"][index].pop(other, None)
        return stage_of(declared, key, value, words)

    return damage


DAMAGES: dict[str, Damage] = {
    "unknown key of a stage": lambda d: stage_of(d, "replica", 2, "there is no `replica` in a stage: did you mean"),
    "unknown key of an edge": lambda d: edge_of(d, "via", "shm", "there is no `via` in an edge: drop it, or use one"),
    "unknown key of the graph": lambda d: put(d, "stages", 1, ("stages",), "in a graph: did you mean `stage`?"),
    "no name of the graph": lambda d: without(d, "name", ()),
    "no name of a stage": lambda d: without(d["stage"][0], "name", ("stage", 0)),
    "no lifetime": lambda d: without(d["stage"][1], "lifetime", ("stage", 1)),
    "no target": lambda d: without(d["edge"][0], "target", ("edge", 0)),
    "text for a number": lambda d: stage_of(d, "load", "much", "`load` is a text in quotes: make it a number"),
    "number for a text": lambda d: stage_of(d, "host", 7, "`host` is a whole number: make it a text in quotes"),
    "text for a list": lambda d: stage_of(d, "gives", "pcm", "`gives` is a text in quotes: make it a list"),
    "half a batch": lambda d: stage_of(d, "max_batch", 1.5, "`max_batch` is a number: make it a whole number"),
    "truth for a time": lambda d: stage_of(d, "deadline_s", True, "`deadline_s` is true or false: make it a number"),
    "text for bytes": lambda d: stage_of(
        d, "budget_bytes", {"cpu": 1, "gpu:0": "2 GB"}, "`gpu:0` is a text in quotes", element=("gpu:0",)
    ),
    "a number for a device": lambda d: put(d["devices"], "cpu", "all", ("devices", "cpu"), "make it a whole number"),
    "unknown kind": lambda d: stage_of(
        d, "accepts", ["pcm", "codes"], "`accepts` cannot be 'codes': use one of", element=(1,)
    ),
    "unknown lifetime": lambda d: stage_of(d, "lifetime", "day", "cannot be 'day': use one of session, turn"),
    "unknown connector": lambda d: edge_of(d, "connector", "rdma", "use one of auto, memory, shm, tcp"),
    "a stage twice": twice,
    "an edge twice": edge_twice,
    "an edge from nowhere": lambda d: edge_of(d, "source", "ghost", "an edge names the unknown stage `ghost`"),
    "an edge to nowhere": lambda d: edge_of(d, "target", "s", "an edge names the unknown stage `s`: did you mean `s"),
    "a kind that is not accepted": no_such_kind,
    "a cycle": cycle,
    "an edge to itself": loop,
    "a device over its budget": over_budget,
    "an unknown device": lambda d: stage_of(
        d, "budget_bytes", {"tpu": 1}, "takes bytes of the unknown device tpu", element=("tpu",)
    ),
    "less than nothing of a device": lambda d: stage_of(
        d, "budget_bytes", {"cpu": -1}, "takes -1 bytes of cpu", element=("cpu",)
    ),
    "a cluster": lambda d: stage_of(d, "placement", "cluster", "is placed on a cluster, which is not yet possible"),
    "no replica": lambda d: stage_of(d, "replicas", 0, "has replicas = 0: give 1 or more"),
    "no batch": lambda d: stage_of(d, "max_batch", 0, "has max_batch = 0: give 1 or more"),
    "no time": lambda d: stage_of(d, "deadline_s", 0, "has deadline_s = 0: give more than 0"),
    "a wait that is no number": lambda d: stage_of(d, "max_wait_ms", float("nan"), "has max_wait_ms = nan: give 0"),
    "a name with a space": lambda d: stage_of(d, "name", "a b", "has a name that cannot be: use letters"),
    "a stage that accepts nothing": lambda d: stage_of(d, "accepts", [], "accepts nothing"),
    "replicas in one process": inline("replicas", 2, "is inline and has 2 replicas"),
    "a host for what is inline": inline("host", "there", "is inline and has the host `there`"),
    "a host of two sizes": hosts_differ,
    "an output without an edge": leads_nowhere,
    "two lifetimes": lifetimes_differ,
    "memory between processes": memory_apart,
    "a deadline of a session": endless("deadline_s", 1, "has a deadline and is fed for as long as the session lives"),
    "a second attempt of a session": endless("pure", True, "is pure and its input is kept for no second attempt"),
    "an edge that waits for a session": endless_edge,
}


@pytest.mark.parametrize("name", DAMAGES)
@settings(max_examples=10)
@given(declared=declarations(least_edges=1), style=STYLES)
def test_damage_is_refused_with_its_line(name: str, declared: Table, style: Random) -> None:
    path, words = DAMAGES[name](declared)
    writer = Writer(style)
    text = writer.write(declared)
    with pytest.raises(GraphError) as caught:
        parse(text, file="g.toml")
    assert str(caught.value).startswith(f"g.toml, line {line_of(writer.lines, path)}: "), str(caught.value)
    assert words in str(caught.value)
    assert ": " in caught.value.message or caught.value.message.endswith("?"), "there is a remedy"


def test_what_is_no_toml_is_refused_with_its_line() -> None:
    with pytest.raises(GraphError, match=r"^g\.toml, line 3: this is not TOML: "):
        parse("a = 1\n\nb = = 2\n", file="g.toml")
    with pytest.raises(GraphError, match=r"^g\.toml, line 2: this is not TOML: .*end of document"):
        parse('a = 1\nb = "', file="g.toml")


@pytest.mark.parametrize("text", ["stage = 1", "stage = [1]", "[stage]\nname = 1"])
def test_stages_that_are_no_tables_are_refused(text: str) -> None:
    with pytest.raises(GraphError, match=r"^g\.toml, line 2: `stage` is no list of tables: head each with \[\[stage"):
        parse(f'name = "a"\n{text}', file="g.toml")


def test_a_graph_without_stages_is_refused() -> None:
    with pytest.raises(GraphError, match=r"^g\.toml, line 1: there is no stage: declare one at least"):
        parse('name = "a"', file="g.toml")


def test_the_error_keeps_its_words_and_place() -> None:
    with pytest.raises(GraphError) as caught:
        parse('name = "a"\n[[stage]]\nname = "b"\nlifetim = "turn"', file="g.toml")
    assert caught.value.message == "there is no `lifetim` in a stage: did you mean `lifetime`?"
    assert caught.value.path == ("stage", 0, "lifetim")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"absent\.toml: cannot be read \(No such file or directory\): check the path"):
        read(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(GraphError, match=r"latin\.toml: is not text in UTF-8"):
        read(tmp_path / "latin.toml")
    good = 'name = "a"\n[[stage]]\nname = "b"\nlifetime = "turn"\naccepts = ["pcm"]\ngives = ["text"]\n'
    (tmp_path / "good.toml").write_text(good + "final_output = true")
    assert read(tmp_path / "good.toml").plan(["b"]) == ("b",)
