"""The rules that a stage graph obeys, and the sentence that refuses each breach.

Every breach is a `GraphError` that says where it is: its `path` leads through the declaration, as in
``("stage", 2, "accepts")``, so that whoever has read the declaration from a file can name the line.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn

from duplex.connector.payload import Kind
from duplex.errors import GraphError
from duplex.orchestrator.spec import Edge, StageSpec

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Rules:
    """Checks one declaration.

    Args:
        name: of the graph.
        stages, edges, devices: as declared, in that order.
    """

    def __init__(
        self, *, name: str, stages: tuple[StageSpec, ...], edges: tuple[Edge, ...], devices: Mapping[str, int]
    ) -> None:
        self._name = name
        self._stages = stages
        self._edges = edges
        self._devices = devices
        self._by_name = {stage.name: stage for stage in stages}

    def check(self) -> tuple[str, ...]:
        """The stages' names, upstream first. Raises GraphError at the first breach."""
        if not self._stages:
            self._refuse("there is no stage: declare one at least")
        names: set[str] = set()
        for index, stage in enumerate(self._stages):
            if stage.name in names:
                self._refuse(f"stage `{stage.name}` is declared twice: rename one", "stage", index, "name")
            names.add(stage.name)
            self._check_stage(stage, index)
        self._check_hosts()
        self._check_devices()
        for index, edge in enumerate(self._edges):
            self._check_edge(edge, index)
        self._check_twice()
        order = self._sorted()
        sources = {edge.source for edge in self._edges}
        for index, stage in enumerate(self._stages):
            if not stage.final_output and stage.name not in sources:
                remedy = "add an edge from it, or set final_output"
                self._refuse(f"the output of stage `{stage.name}` goes nowhere: {remedy}", "stage", index, "name")
        return order

    def _check_twice(self) -> None:
        seen: set[tuple[str, str, Kind]] = set()
        for index, edge in enumerate(self._edges):
            if (one := (edge.source, edge.target, edge.kind)) in seen:
                what = f"the edge from `{edge.source}` to `{edge.target}` for {edge.kind} is declared twice"
                self._refuse(f"{what}: drop one", "edge", index)
            seen.add(one)

    def _refuse(self, message: str, *path: str | int) -> NoReturn:
        raise GraphError(message, where=f"graph {self._name}", path=path)

    def _check_stage(self, stage: StageSpec, index: int) -> None:
        def refuse(what: str, remedy: str, *key: str) -> NoReturn:
            self._refuse(f"stage `{stage.name}` {what}: {remedy}", "stage", index, *key)

        if not _NAME.fullmatch(stage.name):
            refuse("has a name that cannot be", "use letters, digits, _ and -", "name")
        for kinds, key in ((stage.accepts, "accepts"), (stage.gives, "gives")):
            if not kinds:
                refuse(f"{key} nothing", f"name a payload kind in {key}", key)
        for value, least, key in (
            (stage.load, 0, "load"),
            (stage.state_bytes, 0, "state_bytes"),
            (stage.replicas, 1, "replicas"),
            (stage.max_batch, 1, "max_batch"),
            (stage.max_wait_ms, 0, "max_wait_ms"),
        ):
            if not least <= value < math.inf:  # so written that NaN is refused too
                refuse(f"has {key} = {value:g}", f"give {least} or more", key)
        if stage.placement == "cluster":
            refuse("is placed on a cluster, which is not yet possible", "use inline or process", "placement")
        if stage.placement == "inline" and stage.replicas > 1:
            remedy = 'set placement = "process", or replicas = 1'
            refuse(f"is inline and has {stage.replicas} replicas", remedy, "replicas")
        if stage.placement == "inline" and stage.host != stage.name:
            refuse(f"is inline and has the host `{stage.host}`", 'set placement = "process", or drop host', "host")
        if stage.deadline_s is not None and not 0 < stage.deadline_s < math.inf:
            refuse(f"has deadline_s = {stage.deadline_s:g}", "give more than 0, or drop it", "deadline_s")
        if stage.lifetime == "session":
            remedy = 'drop it, or set lifetime = "turn"'
            if stage.deadline_s is not None:
                refuse("has a deadline and is fed for as long as the session lives", remedy, "deadline_s")
            if stage.pure:
                refuse("is pure and its input is kept for no second attempt, being a whole session", remedy, "pure")
        for device, nbytes in stage.budget_bytes.items():
            if nbytes < 0:
                refuse(f"takes {nbytes} bytes of {device}", "give 0 or more", "budget_bytes", device)
            if device not in self._devices:
                known = f"name one of {_listed(self._devices)}, or add it" if self._devices else "add it"
                refuse(f"takes bytes of the unknown device {device}", f"{known} to devices", "budget_bytes", device)

    def _check_hosts(self) -> None:
        first: dict[str, StageSpec] = {}
        for index, stage in enumerate(self._stages):
            other = first.setdefault(stage.host, stage)
            for key, theirs, own in (
                ("placement", other.placement, stage.placement),
                ("replicas", other.replicas, stage.replicas),
            ):
                if theirs != own:
                    what = f"stages `{other.name}` and `{stage.name}` share the host `{stage.host}` and differ in {key}"
                    self._refuse(f"{what} ({theirs} and {own}): make them equal, or the hosts two", "stage", index, key)

    def _check_devices(self) -> None:
        for device, most in self._devices.items():
            takes = {
                stage.name: stage.replicas * stage.budget_bytes.get(device, 0)
                for stage in self._stages
                if stage.budget_bytes.get(device, 0)
            }
            if (total := sum(takes.values())) > most:
                whose = ", ".join(f"{name} {nbytes}" for name, nbytes in takes.items())
                what = f"device {device} has {most} bytes, and its stages take {total} ({whose})"
                self._refuse(f"{what}: lower what a stage takes, or raise what the device has", "devices", device)

    def _check_edge(self, edge: Edge, index: int) -> None:
        def refuse(message: str, key: str) -> NoReturn:
            self._refuse(message, "edge", index, key)

        for end, key in ((edge.source, "source"), (edge.target, "target")):
            if end not in self._by_name:
                refuse(f"an edge names the unknown stage `{end}`: {_nearest(end, self._by_name)}", key)
        source, target = self._by_name[edge.source], self._by_name[edge.target]
        for stage, verb, kinds in ((source, "gives", source.gives), (target, "accepts", target.accepts)):
            if edge.kind not in kinds:
                what = f"stage `{stage.name}` {verb} no `{edge.kind}`; it {verb} {_listed(kinds)}"
                refuse(f"{what}: change the edge's kind, or add {edge.kind} to {verb}", "kind")
        if source.lifetime != target.lifetime:
            what = f"an edge joins `{source.name}` and `{target.name}`, which live for different times"
            refuse(f"{what} ({source.lifetime} and {target.lifetime}): let the session pass it on", "target")
        if source.lifetime == "session" and not edge.async_chunk:
            refuse(
                f"an edge waits for the end of `{source.name}`, which is the session's: drop async_chunk", "async_chunk"
            )
        if edge.connector == "memory" and not source.shares_process(target):
            what = f"memory cannot carry from `{source.name}` to `{target.name}`, which are in different processes"
            refuse(f"{what}: use auto or shm, or give them one host", "connector")

    def _sorted(self) -> tuple[str, ...]:
        sorter: TopologicalSorter[str] = TopologicalSorter({stage: () for stage in self._by_name})
        for edge in self._edges:
            sorter.add(edge.target, edge.source)
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            names: list[str] = error.args[1]
            links = set(itertools.pairwise(names))
            last = max(index for index, edge in enumerate(self._edges) if (edge.source, edge.target) in links)
            message = f"stages form a cycle, {' -> '.join(names)}: drop an edge, and close the loop through the session"
            raise GraphError(message, where=f"graph {self._name}", path=("edge", last)) from error


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"declare it, or name one of {_listed(known)}"
