"""What a model family is: the one face that the server knows of any model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from duplex.connector.base import Connector
from duplex.engine.base import Engine, Lane
from duplex.orchestrator.graph import StageGraph
from duplex.state.ref import StateRef
from duplex.state.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a family may use.

    Attributes:
        path: where a model file lies, by its key in the store; raises ModelStoreError where it is not here.
        connector: carries the payloads.
        sessions: at one time, whether anything is done in them or not.
        workers: threads that run the small models.
        prefix_caches: sessions whose history a language model keeps at hand.
        context_tokens: context of a language model, per session.
        llama_threads, llama_batch_threads: threads of llama.cpp that generate, and that read prompts.
    """

    path: Callable[[str], Path]
    connector: Connector
    sessions: int
    workers: int = 2
    prefix_caches: int = 4
    context_tokens: int = 2048
    llama_threads: int = 1
    llama_batch_threads: int = 1


class Pipeline(Protocol):
    """The engines of a family in one process, and what is asked about them. All on the event loop."""

    @property
    def engines(self) -> Mapping[str, Engine]:
        """By stage; started and stopped by the orchestrator's runner."""

    @property
    def states(self) -> Sequence[StateStore[Any]]:
        """The books of the state that the engines hold for sessions; empty where they hold none."""

    def active(self) -> dict[str, int]:
        """Requests alive, by stage."""

    def lanes(self) -> dict[str, Lane]:
        """What the stages share the time of, the machine's cores aside."""

    def widths(self) -> dict[str, float]:
        """Cores that each stage keeps busy while it works."""

    def spent(self, session_id: str) -> dict[str, float]:
        """Seconds that each stage has worked for a session."""

    def release(self, session_id: str) -> None:
        """The session is over: nothing is held for it any more. Calling it twice is fine."""

    def refs(self, session_id: str) -> tuple[StateRef, ...]:
        """The state that the engines hold for a session."""

    def counted(self) -> dict[str, int]:
        """What has become of the engines' state so far, by kind."""

    async def check_integrity(self) -> list[str]:
        """One sentence for each thing that is held and not in the books, or the other way round."""

    def close(self) -> None:
        """Give back threads and models; the engines have been stopped before."""


@runtime_checkable
class Family(Protocol):
    """Models that work together, found by the entry point group ``duplex.models`` under the family's name."""

    @property
    def name(self) -> str: ...

    @property
    def graph(self) -> StageGraph:
        """Which stages there are; reading it loads no model."""

    @property
    def instructions(self) -> str:
        """What a session is told where its client says nothing."""

    @property
    def voices(self) -> tuple[str, ...]:
        """The first is the default."""

    @property
    def transcriber(self) -> str:
        """Name to show for the recognition."""

    def build(self, stages: Collection[str], resources: Resources) -> Pipeline:
        """Engines for these stages of the graph, and no others: each process has its own. Loads nothing yet.

        Raises:
            ModelStoreError: a model file is not here.
        """
