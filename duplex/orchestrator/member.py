"""What a pool needs of a replica: its engine, and how it dies and lives again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from duplex.engine.base import Engine


class Life(Protocol):
    """What an engine lives in that may die without taking the server along: a process, as a rule."""

    def watch(self, on_death: Callable[[str], None]) -> None:
        """Have `on_death` called with the reason, on the event loop, once per life, and before `restart` can be.

        It is to come no later than in the same callback as the StageFailed of the requests that died: only then can
        those of a pure stage be given to another replica. An end that `stop` brought about is no death.
        """

    async def restart(self) -> None:
        """Begin a new life, in which the engine says what it has to say to the sink that it was started with.

        Whatever it raises says that this life is over too. Of the life before nothing is said any more.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One replica: its engine, and the life of it; `life` is None where engine and server live and die together."""

    engine: Engine
    life: Life | None = None
