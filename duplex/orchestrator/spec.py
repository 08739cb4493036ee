"""What a graph is declared with: its stages and its edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from duplex.connector.payload import Kind

Lifetime = Literal["session", "turn"]
Placement = Literal["inline", "process", "cluster"]
Carrier = Literal["auto", "memory", "shm", "tcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage.

    Attributes:
        name: unique in its graph; letters, digits, ``_``, ``-`` and dots.
        lifetime: ``session`` is fed for as long as the session lives, ``turn`` is one request per turn.
        accepts: payload kinds that it takes, from edges and from the session.
        gives: payload kinds that it makes.
        final_output: whether its output goes to the session; a request completes when each such stage has.
        load: seconds of its work per second of a session in use, for as long as nothing better is known: too much
            rather than too little.
        state_bytes: memory of the host that it keeps for one session at most; what is reserved at the start for all
            sessions, such as prefix caches, is none of it.
        placement: ``inline`` in the server's own process, ``process`` in one of its own; ``cluster`` is refused so far.
        replicas: how many times it is there; more than one takes a process each.
        budget_bytes: by device: what one replica of it may take at most.
        max_batch: requests that it works on in one step at most.
        max_wait_ms: how long a step may wait for its batch to fill.
        deadline_s: longest time of one request here; None is as long as it takes.
        pure: its output depends on nothing but its input, so that a request may be tried again on another replica.
        host: stages in processes that have the same host share one; its own name unless it is given.
    """

    name: str
    lifetime: Lifetime
    accepts: frozenset[Kind]
    gives: frozenset[Kind]
    final_output: bool = False
    load: float = 0.0
    state_bytes: int = 0
    placement: Placement = "inline"
    replicas: int = 1
    budget_bytes: Mapping[str, int] = field(default_factory=dict)
    max_batch: int = 1
    max_wait_ms: float = 0.0
    deadline_s: float | None = None
    pure: bool = False
    host: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.host or self.name)

    def shares_process(self, other: StageSpec) -> bool:
        """Whether whatever one makes for the other stays in one process, whichever replicas a session is bound to."""
        if self.placement == other.placement == "inline":
            return True
        # Each replica of a host has all of its stages; but a session may be bound to another one for each stage.
        return self.placement == other.placement and self.host == other.host and self.replicas == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Everything of `kind` that `source` makes goes to `target`.

    Attributes:
        connector: what carries it; ``auto`` is memory within a process and shared memory between two.
        async_chunk: whether each chunk goes on as soon as it is made; else all of them when the source has ended.
    """

    source: str
    target: str
    kind: Kind
    connector: Carrier = "auto"
    async_chunk: bool = True
