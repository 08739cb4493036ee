"""Random graphs, as what a TOML file would hold, and such files, with the line of everything in them."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from duplex.connector.payload import Kind
from duplex.orchestrator.toml_lines import Path

Table = dict[str, Any]

KINDS = sorted(Kind)
DEVICES = ("cpu", "gpu:0")


@st.composite
def stages(draw: st.DrawFn, name: str, lifetime: str) -> Table:
    """One stage without an edge, all in order."""
    kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True)
    stage: Table = {
        "name": name,
        "lifetime": lifetime,
        "accepts": draw(kinds),
        "gives": draw(kinds),
        "final_output": True,
    }
    choices: dict[str, st.SearchStrategy[Any]] = {
        "load": st.sampled_from([0, 0.25, 1]),
        "state_bytes": st.integers(0, 1 << 40),
        "max_batch": st.integers(1, 64),
        "max_wait_ms": st.sampled_from([0, 2.5]),
        "budget_bytes": st.dictionaries(st.sampled_from(DEVICES), st.integers(0, 1000)),
    }
    if lifetime == "turn":
        choices |= {"deadline_s": st.sampled_from([0.5, 30]), "pure": st.booleans()}
    if draw(st.booleans()):
        stage |= {"placement": "process"}
        choices |= {"host": st.just(f"host-{name}"), "replicas": st.integers(1, 4)}
    for key in draw(st.lists(st.sampled_from(sorted(choices)), unique=True)):
        stage[key] = draw(choices[key])
    return stage


@st.composite
def declarations(draw: st.DrawFn, *, least_edges: int = 0) -> Table:
    """A graph that obeys every rule; edges go from a stage to a later one."""
    count = draw(st.integers(max(1, 2 * (least_edges > 0)), 5))
    lifetimes = ["turn" if index < 2 else draw(st.sampled_from(["turn", "session"])) for index in range(count)]
    made = [draw(stages(f"s{index}", lifetime)) for index, lifetime in enumerate(lifetimes)]
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count) if lifetimes[a] == lifetimes[b]]
    drawn = draw(st.lists(st.sampled_from(pairs), min_size=least_edges, max_size=4, unique=True)) if pairs else []
    edges = []
    for source, target in drawn:
        kind = draw(st.sampled_from(sorted(made[source]["gives"])))
        if kind not in made[target]["accepts"]:
            made[target]["accepts"].append(kind)
        edge = {"source": f"s{source}", "target": f"s{target}", "kind": kind}
        if draw(st.booleans()):
            edge["connector"] = draw(st.sampled_from(["auto", "shm", "tcp"]))
        if draw(st.booleans()) and lifetimes[source] == "turn":
            edge["async_chunk"] = draw(st.booleans())
        edges.append(edge)
    for stage in made:
        if any(edge["source"] == stage["name"] for edge in edges):
            stage["final_output"] = draw(st.booleans())
    taken = {
        name: sum(stage.get("replicas", 1) * stage.get("budget_bytes", {}).get(name, 0) for stage in made)
        for name in DEVICES
    }
    devices = {name: total + draw(st.sampled_from([0, 1000])) for name, total in taken.items()}
    return {"name": draw(st.sampled_from(["voice", "a b#c", ""])), "devices": devices, "stage": made, "edge": edges}


class Writer:
    """Writes a declaration as TOML; `style` makes every choice of how.

    Attributes:
        lines: the line of each table, key and element that was written.
    """

    def __init__(self, style: Random) -> None:
        self.lines: dict[Path, int] = {}
        self._style = style
        self._text = ""

    def write(self, declared: Table) -> str:
        for key, value in declared.items():
            if key not in ("devices", "stage", "edge"):
                self._pair((key,), value)
        if devices := declared.get("devices"):
            self._head(("devices",), "[devices]")
            for name, nbytes in devices.items():
                self._pair(("devices", name), nbytes)
        for what in ("stage", "edge"):
            for index, table in enumerate(declared.get(what, [])):
                self._head((what, index), f"[[{what}]]")
                keys = self._style.sample(sorted(table), len(table))
                for key in keys:
                    self._pair((what, index, key), table[key])
        return self._text

    def _gap(self) -> None:
        self._text += self._style.choice(["", "", "\n", "# [[stage]]\n", '  # name = """\n'])

    def _here(self, path: Path) -> None:
        self.lines[path] = self._text.count("\n") + 1

    def _head(self, path: Path, head: str) -> None:
        self._gap()
        self._here(path)
        self._text += head + "\n"

    def _pair(self, path: Path, value: Any) -> None:
        self._gap()
        self._here(path)
        key = str(path[-1])
        self._text += (f'"{key}"' if ":" in key or self._style.random() < 0.5 else key) + " = "
        self._value(path, value)
        self._text += self._style.choice(["\n", "  # and so on\n"])

    def _value(self, path: Path, value: Any) -> None:
        if isinstance(value, list):
            many = self._style.random() < 0.5
            self._text += "["
            for index, element in enumerate(value):
                self._text += "\n  " if many else " "
                self._here((*path, index))
                self._value((*path, index), element)
                self._text += ","
            self._text += "]"
        elif isinstance(value, dict):
            self._text += "{ "
            for index, (key, element) in enumerate(value.items()):
                self._text += ", " if index else ""
                self._here((*path, key))
                self._text += f'"{key}" = '
                self._value((*path, key), element)
            self._text += " }"
        elif isinstance(value, bool):
            self._text += str(value).lower()
        else:
            self._text += f'"{value}"' if isinstance(value, str) else str(value)
