"""Which conversation has which of an engine's prefix caches. Pure."""

from __future__ import annotations

from collections import OrderedDict


class SlotTable:
    """Which cache key owns which slot. A key keeps its slot until it is released or the slot is needed for another.

    A key without a slot takes one that nobody owns, else the idle one that has been unused for longest. One request
    at a time runs on a slot: a second one of the same key waits, which a barge-in makes short, instead of computing
    its prefix again elsewhere. Callers hold the lock that they guard the table with.
    """

    def __init__(self, *, slots: int) -> None:
        self._owners: OrderedDict[int, str | None] = OrderedDict.fromkeys(range(slots))
        self._busy: set[int] = set()

    @property
    def busy(self) -> int:
        """Slots that run a request now."""
        return len(self._busy)

    def owner(self, slot: int) -> str | None:
        return self._owners[slot]

    def acquire(self, key: str) -> int | None:
        """A slot for a request of `key`, or None: try again when one has been given back."""
        own = next((slot for slot, owner in self._owners.items() if owner == key), None)
        if own is None:
            idle = [slot for slot in self._owners if slot not in self._busy]
            own = next((slot for slot in idle if self._owners[slot] is None), idle[0] if idle else None)
        if own is None or own in self._busy:
            return None
        self._busy.add(own)
        self._owners[own] = key
        self._owners.move_to_end(own)
        return own

    def give_back(self, slot: int) -> None:
        """The request on `slot` is over; its key keeps the slot."""
        self._busy.discard(slot)

    def release(self, key: str) -> None:
        """`key` will not come again: its slot is the first to be used for another, when it is idle."""
        for slot, owner in self._owners.items():
            if owner == key:
                self._owners[slot] = None
                self._owners.move_to_end(slot, last=False)
                return
