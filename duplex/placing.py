"""Where stages run: some in the server's process, some in processes of their own, each as often as its graph says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from duplex.connector.shm import ShmConnector
from duplex.engine.arenas import Arenas
from duplex.engine.base import Engine, Lane
from duplex.engine.host import EngineHost
from duplex.engine.life import HostSpec
from duplex.engine.remote import RemoteEngine
from duplex.models.family import Family, Pipeline, Resources
from duplex.models.hosted import SPEC, Hosted
from duplex.models.store import ModelStore
from duplex.orchestrator.graph import StageGraph
from duplex.orchestrator.member import Member
from duplex.orchestrator.pool import StagePool
from duplex.orchestrator.pooling import PoolView
from duplex.orchestrator.replica import RestartPolicy
from duplex.orchestrator.replicas import ReplicatedEngine
from duplex.session.fence import Fence
from duplex.state.ref import StateRef
from duplex.state.store import StateStore

SERVER = 0
"""The number of the server's own arena."""

CONNECTOR = "duplex.connector.shm:ShmConnector"

ARENA_BYTES = 32 << 20
"""Of each engine process; what a voice makes waits in it until its time to be heard."""

THREADS = 1
"""Of numerical libraries in an engine process: the stages' own threads are what its family makes."""


def placed(graph: StageGraph, *, placement: str | None, replicas: int | None) -> StageGraph:
    """The graph as an operator wants it: every stage placed there, and where that is in processes so many of each.

    Raises:
        GraphError: it cannot be so.
    """
    stages = list(graph.stages.values())
    match placement:
        case "inline":
            stages = [replace(one, placement="inline", replicas=1, host=one.name) for one in stages]
        case "process":
            stages = [replace(one, placement="process") for one in stages]
        case _:
            pass
    if replicas is not None:
        stages = [replace(one, replicas=replicas) if one.placement == "process" else one for one in stages]
    return StageGraph(name=graph.name, stages=stages, edges=graph.edges, devices=graph.devices)


class SharedConnector(ShmConnector):
    """The server's own: what it retires, the engine processes retire as well."""

    def __init__(self, arena_bytes: int) -> None:
        super().__init__(SERVER, arena_bytes)
        self.hosts: list[EngineHost] = []

    def retire(self, fence: Fence) -> int:
        """On the event loop, where sessions are."""
        dropped = super().retire(fence)
        for host in self.hosts:
            host.retire(fence)
        return dropped


class PlacedPipeline:
    """A `Pipeline` whose stages are partly elsewhere. On the event loop.

    Args:
        models: the family.
        graph: says which stage runs where.
        store: where the engine processes find the models' files.
        resources: of the server's own process; `connector` is the shared one.
        connector: see there.
        tasks: own the restarts.
        clock: the event loop's.
    """

    def __init__(
        self,
        *,
        models: Family,
        graph: StageGraph,
        store: ModelStore,
        resources: Resources,
        connector: SharedConnector,
        tasks: asyncio.TaskGroup,
        clock: Callable[[], float],
    ) -> None:
        inline = [name for name, stage in graph.stages.items() if stage.placement == "inline"]
        self._inline: Pipeline | None = models.build(inline, resources) if inline else None
        self._workers = resources.workers
        self._graph = graph
        arenas = Arenas(connector)
        chance = random.SystemRandom().random
        self._pools: dict[str, ReplicatedEngine] = {}
        self._remotes: dict[str, list[RemoteEngine]] = {}
        for name, stages in graph.hosts.items():
            spec = HostSpec(
                engines=SPEC,
                connector=CONNECTOR,
                options=Hosted(
                    family=models.name,
                    stages=stages,
                    models_dir=str(store.directory),
                    models_owned=store.owned,
                    sessions=resources.sessions,
                    workers=resources.workers,
                    prefix_caches=resources.prefix_caches,
                    context_tokens=resources.context_tokens,
                    llama_threads=resources.llama_threads,
                    llama_batch_threads=resources.llama_batch_threads,
                ).options(),
                arena_bytes=ARENA_BYTES,
                threads=THREADS,
            )
            replicas = graph.stages[stages[0]].replicas
            hosts = [
                EngineHost(
                    name=name if replicas == 1 else f"{name}-{number}",
                    stages=stages,
                    spec=spec,
                    arenas=arenas,
                    clock=clock,
                )
                for number in range(replicas)
            ]
            connector.hosts += hosts
            for stage in stages:
                remotes = self._remotes[stage] = [host.engines[stage] for host in hosts]
                self._pools[stage] = ReplicatedEngine(
                    core=StagePool(
                        stage=stage,
                        replicas=replicas,
                        policy=RestartPolicy(),
                        chance=chance,
                        pure=graph.stages[stage].pure,
                    ),
                    members=[Member(engine=remote, life=remote) for remote in remotes],
                    connector=connector,
                    tasks=tasks,
                    clock=clock,
                )
        self._connector = connector

    @property
    def engines(self) -> Mapping[str, Engine]:
        inline = self._inline.engines if self._inline is not None else {}
        every: dict[str, Engine] = {**inline, **self._pools}
        return {stage: every[stage] for stage in self._graph.stages}

    @property
    def states(self) -> Sequence[StateStore[Any]]:
        """Of the stages in this process; an engine process keeps its own books."""
        return self._inline.states if self._inline is not None else ()

    def views(self) -> dict[str, PoolView]:
        """The replicas of each stage that has processes, for an operator."""
        return {stage: pool.snapshot() for stage, pool in self._pools.items()}

    def active(self) -> dict[str, int]:
        inline = self._inline.active() if self._inline is not None else {}
        return inline | {stage: pool.active for stage, pool in self._pools.items()}

    def lanes(self) -> dict[str, Lane]:
        """Those of the stages here, and one for each stage elsewhere: its processes' threads."""
        lanes = self._inline.lanes() if self._inline is not None else {}
        return lanes | {
            stage: Lane(most=float(len(remotes)), weights={stage: 1.0}) for stage, remotes in self._remotes.items()
        }

    def widths(self) -> dict[str, float]:
        inline = self._inline.widths() if self._inline is not None else {}
        return inline | dict.fromkeys(self._remotes, 1.0)

    def spent(self, session_id: str) -> dict[str, float]:
        inline = self._inline.spent(session_id) if self._inline is not None else {}
        return inline | {
            stage: sum(remote.spent(session_id) for remote in remotes) for stage, remotes in self._remotes.items()
        }

    def release(self, session_id: str) -> None:
        if self._inline is not None:
            self._inline.release(session_id)
        for pool in self._pools.values():
            pool.forget(session_id)
        for host in self._connector.hosts:
            host.forget(session_id)

    def refs(self, session_id: str) -> tuple[StateRef, ...]:
        return self._inline.refs(session_id) if self._inline is not None else ()

    def counted(self) -> dict[str, int]:
        counted = self._inline.counted() if self._inline is not None else {}
        deaths = {host.name: host.deaths for host in self._connector.hosts}
        return counted | {f"deaths_of_{name}": count for name, count in deaths.items() if count}

    async def check_integrity(self) -> list[str]:
        return await self._inline.check_integrity() if self._inline is not None else []

    def close(self) -> None:
        if self._inline is not None:
            self._inline.close()
        self._connector.close()
