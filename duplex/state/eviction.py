"""Which piece of state goes when room is needed."""

from __future__ import annotations

from collections.abc import Iterable

from duplex.state.ref import StateKey


class GreedyDual:
    """Least recently used, weighed by what it would cost to make it again: GreedyDual-Size.

    Each piece has a worth, floor + cost / size, set when it is used; the least worth goes first, and the floor rises to
    what it was worth, so that what is not used any more grows old against what is. With equal costs and sizes this is
    LRU. (P. Cao and S. Irani, Cost-Aware WWW Proxy Caching Algorithms, USITS 1997.)
    """

    def __init__(self) -> None:
        self._floor = 0.0
        self._worth: dict[StateKey, float] = {}

    def used(self, key: StateKey, *, cost_s: float, nbytes: int) -> None:
        """A piece was used, or has changed: `cost_s` to make it again, `nbytes` that its eviction frees."""
        self._worth.pop(key, None)  # the newest stands last, and of equals the first goes
        self._worth[key] = self._floor + cost_s / max(1, nbytes)

    def forget(self, key: StateKey) -> None:
        """A piece is gone, whether it was evicted or not."""
        self._worth.pop(key, None)

    def choose(self, candidates: Iterable[StateKey]) -> StateKey | None:
        """Who goes, of those that may; None where nobody may. The choice counts as made."""
        may = set(candidates)
        chosen = min((key for key in self._worth if key in may), key=self._worth.__getitem__, default=None)
        if chosen is not None:
            self._floor = self._worth[chosen]
        return chosen
