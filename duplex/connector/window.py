"""A reader's side of an arena: its own or another process's. It has no lock of its own: its connector has."""

from __future__ import annotations

import fcntl
import os
import weakref

import numpy as np

from duplex.connector.arena import SEALS, Geometry, mapped, table_of, whole_pages
from duplex.connector.base import Place
from duplex.connector.codec import Buffer
from duplex.connector.slots import Claim
from duplex.errors import ConnectorError, UnknownHandle

_Reading = tuple[int, int, list[None]]
"""What this process has taken of one payload: its generation, how many takes of it a former process with this number
had done with, and one entry for each take that this one has done with."""


class Window:
    """What may be read of an arena.

    Args:
        fd: the arena's; it may be closed afterwards.
        arena_bytes: its size.
        number: of the process that reads.

    Raises:
        ConnectorError: the descriptor is no arena of this size.
    """

    def __init__(self, fd: int, *, arena_bytes: int, number: int) -> None:
        geometry = Geometry.of(whole_pages(arena_bytes))
        try:
            if os.fstat(fd).st_size != arena_bytes or fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS != SEALS:
                raise ConnectorError(f"the descriptor is no arena of {arena_bytes} bytes")
            self.table = table_of(fd, geometry)
            self._payloads = mapped(fd, geometry.payloads, geometry.table, writable=False)
        except OSError as error:
            raise ConnectorError(f"the descriptor is no arena of {arena_bytes} bytes: {error}") from error
        self.number = number
        self.takes: set[Take] = set()
        self._readings: dict[int, _Reading] = {}

    def holds(self, place: Place) -> bool:
        """Whether a place lies within the arena."""
        within = place.offset >= 0 and 0 <= place.header <= place.length <= len(self._payloads) - place.offset
        return within and 0 <= place.slot < len(self.table) and place.generation > 0

    def take(self, place: Place) -> Take:
        """Begin to read.

        Raises:
            UnknownHandle: it may not be taken, or not any more.
        """
        slot, generation = place.slot, place.generation
        if not self.holds(place):
            raise UnknownHandle(f"{place} lies in no arena")
        count = self.table.claim(slot, generation, self.number)
        if count < 0:
            what = "has been taken" if count == Claim.TAKEN else "is gone"
            raise UnknownHandle(f"payload {generation} of process {place.owner} {what}")
        reading = self._readings.get(slot)
        if reading is None or reading[0] != generation:
            before = self.table.released(slot, generation, self.number) if count > 1 else 0
            reading = self._readings[slot] = (generation, before, [])
        return Take(self, slot, reading)

    def share(self, place: Place, readers: int) -> None:
        """Let a payload be taken `readers` times; one that is gone already is left so."""
        if self.holds(place) and self.table.is_open(place.slot, place.generation):
            self.table.share(place.slot, place.generation, readers)

    def bytes(self, place: Place) -> tuple[memoryview, Buffer]:
        """The header of a payload that has been taken, and its other bytes, both read-only."""
        start, end = place.offset, place.offset + place.length
        return self._payloads[start + place.header : end], np.frombuffer(self._payloads, np.uint8, place.header, start)


class Take:
    """One take of a payload: it is done with after `end`, or when the array given to `end_with` has died."""

    __slots__ = ("_reading", "_ref", "_slot", "_window")

    def __init__(self, window: Window, slot: int, reading: _Reading) -> None:
        self._window = window
        self._slot = slot
        self._reading = reading
        self._ref: weakref.ref[Buffer] | None = None

    def end_with(self, base: Buffer) -> None:
        """End when `base` dies; all arrays on it keep it, for numpy keeps the root of views."""
        self._ref = weakref.ref(base, self._died)
        self._window.takes.add(self)  # A weak reference calls nobody if it dies first.

    def end(self) -> None:
        """From any thread, without a lock, also amid a collection."""
        # Other takes of the payload may end at the same time, in other threads or inside this very loop: who stores
        # last looks once more, so that what stands in the end is the whole count.
        window = self._window
        generation, before, done = self._reading
        done.append(None)
        count = -1
        while count != len(done):
            count = len(done)
            window.table.done(self._slot, generation, window.number, before + count)

    def _died(self, _: weakref.ref[Buffer]) -> None:
        self.end()
        self._window.takes.discard(self)
