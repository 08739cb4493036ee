"""What every kind of typed state can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from duplex.state.kind import StateKind
from duplex.state.ledger import Storage


class StateValue(Protocol):
    """One piece of state, where its engine runs. Only its store calls these; what a kind can do besides (take samples,
    add an item) its owner calls on what `StateStore.stage` gave, and on nothing else.

    Writing goes in two phases. Between `stage` and `commit` what is written must not show in `view`; after `discard` it
    must be as if it had never been written.
    """

    @property
    def kind(self) -> StateKind: ...

    @property
    def length(self) -> int:
        """How much is committed, in the unit of its kind."""

    @property
    def rebuild_s(self) -> float | None:
        """Seconds that making it again would take; None where that cannot be done, and it must never be evicted."""

    @property
    def in_use(self) -> bool:
        """Whether its engine is at work on it, whatever is staged: it is not evicted then."""

    def storages(self) -> Iterable[Storage]:
        """All memory that it holds, staged writes included; what it shares with others under the same identity."""

    def stage(self) -> None:
        """Writing begins."""

    def commit(self) -> None:
        """What was staged is true. Takes no memory that `storages` had not before."""

    def discard(self) -> None:
        """What was staged is not: back to the last commit. Nothing where nothing was staged."""

    def view(self) -> object:
        """What is committed, not to be changed."""

    def snapshot(self) -> object:
        """All that is committed, for `restore` in another value of this kind, now or later."""

    def restore(self, snapshot: object) -> None:
        """Become what was committed when the snapshot was taken; called between `stage` and `commit`."""

    def findings(self) -> Iterable[str]:
        """One sentence for each thing in which its memory really is not what `storages` and `length` say."""

    def close(self) -> None:
        """Give the memory back; nothing is called afterwards."""
