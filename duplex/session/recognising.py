"""The user's turns that are over and whose words are still to come."""

from __future__ import annotations

from collections.abc import Iterator

from duplex.session.effects import Abort, Effect
from duplex.session.fence import Fence
from duplex.session.listening import Committed

UNRECOGNISED = 3
"""Turns that may wait to be recognised before the client has to wait."""


class Recognising:
    """Committed audio, by the fence of its recognition."""

    def __init__(self) -> None:
        self._turns: dict[Fence, Committed] = {}

    def __contains__(self, fence: Fence) -> bool:
        return fence in self._turns

    def __iter__(self) -> Iterator[Fence]:
        """Oldest first."""
        return iter(self._turns)

    @property
    def behind(self) -> bool:
        """Whether so many turns wait that the client has to wait for them."""
        return len(self._turns) > UNRECOGNISED

    def add(self, committed: Committed) -> None:
        """One more."""
        self._turns[committed.utterance.fence] = committed

    def take(self, fence: Fence) -> Committed | None:
        """Its recognition has ended, well or not. None where no turn waits for it."""
        return self._turns.pop(fence, None)

    def close(self) -> list[Effect]:
        """Stop recognising."""
        fences = list(self._turns)
        self._turns.clear()
        return [Abort(fence=fence) for fence in fences]
