"""Memory that the processes of one machine share: one memfd, written by its owner in place and read by all others.

A memfd has no name: the kernel frees it with the last process that holds it, so that no death can leave it behind. It
begins with a table of slots (`slots`), which all map writable, since a reader's release is a store into it; the bytes
behind are mapped read-only by everyone but the owner. All pages are touched when it is made, and it can neither grow
nor shrink, so that nobody faults on it later.

It has no lock of its own: its connector has.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
from collections import deque
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from duplex.connector.codec import Buffer
from duplex.connector.extents import Extents, aligned
from duplex.connector.slots import RECORD, SlotTable, tag_of, wraps
from duplex.errors import ConfigError, ConnectorFull
from duplex.session.fence import Fence

MIN_BYTES = 64 << 10
_BYTES_PER_SLOT = 8 << 10
_MIN_SLOTS, _MAX_SLOTS = 16, 2048
_BATCH = 8
"""Allocations after which twice as many slots are looked at, whether they have been read: not each must pay for it. One
that is large against the arena looks always, so that the same warm pages are used again. Where nothing is free all are.
"""

_LARGE = 64 << 10
"""Bytes from which on a copy takes longer than the way around the interpreter's lock."""

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@dataclass(frozen=True, slots=True)
class Geometry:
    """How an arena is divided; it follows from its size, so that nobody has to tell it.

    Attributes:
        slots: payloads that it can hold at one time.
        table: bytes before the payloads.
        payloads: bytes for payloads.
    """

    slots: int
    table: int
    payloads: int

    @classmethod
    def of(cls, arena_bytes: int) -> Geometry:
        slots = min(_MAX_SLOTS, max(_MIN_SLOTS, arena_bytes // _BYTES_PER_SLOT))
        table = -(-slots * RECORD // mmap.PAGESIZE) * mmap.PAGESIZE
        return cls(slots, table, arena_bytes - table)


def available_bytes() -> int:
    """Memory that the machine could give now (Linux, proc(5), `MemAvailable`)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)


def whole_pages(arena_bytes: int) -> int:
    """The size that an arena of `arena_bytes` really has.

    Raises:
        ConfigError: too small.
    """
    if arena_bytes < MIN_BYTES:
        raise ConfigError(f"an arena of {arena_bytes} bytes is too small: give it {MIN_BYTES} or more")
    return -(-arena_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


def mapped(fd: int, size: int, offset: int, *, writable: bool) -> memoryview:
    """A part of an arena, all pages present. It lives for as long as a view of it does, whatever becomes of `fd`."""
    protection = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    return memoryview(mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=protection, offset=offset))


def table_of(fd: int, geometry: Geometry) -> SlotTable:
    """The table of slots of an arena."""
    return SlotTable(mapped(fd, geometry.table, 0, writable=True)[: geometry.slots * RECORD])


@dataclass(slots=True, eq=False)
class Slot:
    """A part of the owner's arena that is in use.

    Attributes:
        fence: whose it is.
        number, generation, offset: see `Place`.
        nbytes: bytes that it occupies.
        tag: of its generation, see `slots.tag_of`.
        writing: its payload is being written; it cannot be given back yet.
        wanted: it may still be taken, or may be once it is written.
    """

    fence: Fence
    number: int
    generation: int
    offset: int
    nbytes: int
    tag: bytes
    writing: bool = True
    wanted: bool = True


def write(memory: memoryview, at: int, data: Buffer | bytes) -> None:
    """Copy `data` into `memory`. What is large is copied without the interpreter's lock."""
    nbytes = len(data)
    if nbytes < _LARGE:
        memory[at : at + nbytes] = data  # type: ignore[assignment]
    else:
        np.frombuffer(memory, np.uint8, nbytes, at)[:] = np.frombuffer(data, np.uint8)


class Arena:
    """The owner's side: `payloads` is what is written into, `table` says of whom.

    Args:
        arena_bytes: size of the memfd, rounded up to pages.
        first_generation: of each slot. By default it is drawn, so that a handle of a former process with the same
            number names nothing in this one's arena.

    Raises:
        ConfigError: too small, or more than the machine can give.
    """

    def __init__(self, *, arena_bytes: int, first_generation: int | None = None) -> None:
        self.arena_bytes = whole_pages(arena_bytes)
        # The kernel would try, and kill somebody for it.
        if self.arena_bytes > available_bytes():
            raise ConfigError(f"there is no memory for an arena of {self.arena_bytes} bytes: make it smaller")
        self.geometry = geometry = Geometry.of(self.arena_bytes)
        self.fd = os.memfd_create("duplex-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(self.fd, 0, self.arena_bytes)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
            self.table = table_of(self.fd, geometry)
            self.payloads = mapped(self.fd, geometry.payloads, geometry.table, writable=True)
        except OSError as error:
            os.close(self.fd)
            raise ConfigError(f"there is no memory for an arena of {self.arena_bytes} bytes ({error})") from error
        first = secrets.randbits(62) if first_generation is None else first_generation
        self._generations = [first] * geometry.slots
        self._numbers = deque(range(geometry.slots))
        self._extents = Extents(geometry.payloads)
        self._used: dict[int, Slot] = {}
        self._since = 0

    @property
    def used(self) -> list[Slot]:
        """The slots in use; a `sweep` before makes it exact."""
        return list(self._used.values())

    @property
    def nbytes(self) -> int:
        """Bytes in use; a `sweep` before makes it exact."""
        return self.geometry.payloads - self._extents.free

    def allocate(self, fence: Fence, nbytes: int) -> Slot:
        """A slot to be written: its owner fills its bytes of `payloads`, and then calls `publish`.

        Raises:
            ConnectorFull: there is no room, also after a sweep; nothing has changed.
        """
        wanted = aligned(max(1, nbytes))
        self._since += 1
        if self._since >= _BATCH or wanted * 2 * _BATCH > self.geometry.payloads:
            self._since = 0
            self.sweep(2 * _BATCH)
        offset = self._extents.allocate(wanted) if self._numbers else None
        if offset is None:
            self.sweep()
            offset = self._extents.allocate(wanted) if self._numbers else None
        if offset is None:
            held = f"{self.nbytes} of {self.geometry.payloads} in {len(self._used)} of {self.geometry.slots} slots"
            raise ConnectorFull(f"no {nbytes} bytes are free in a row: {held} are held")
        number = self._numbers.pop()
        generation = self._generations[number] + 1
        if wraps(generation):
            self.table.clear(number)
            generation += 1
        self._generations[number] = generation
        slot = Slot(fence, number, generation, offset, wanted, tag_of(generation))
        self._used[number] = slot
        return slot

    def publish(self, slot: Slot) -> bool:
        """Let it be taken, now that it is written; False where nobody wants it any more, and it is given back."""
        slot.writing = False
        if slot.wanted:
            self.table.publish(slot.number, slot.generation)
            return True
        self._release(slot)
        return False

    def shut(self, slot: Slot) -> bool:
        """Let nobody take it any more; True where it is given back at once, False where it is read or written yet."""
        slot.wanted = False
        if slot.writing:
            return False
        self.table.shut(slot.number)
        if self.table.state(slot.number, slot.tag)[1]:
            return False
        self._release(slot)
        return True

    def sweep(self, limit: int | None = None) -> None:
        """Give back what has been read: of all slots, or of the `limit` that were looked at longest ago."""
        for slot in list(islice(self._used.values(), limit)):
            if slot.writing:
                continue
            takes, is_read = self.table.state(slot.number, slot.tag)
            spent = takes > 0 and takes >= self.table.readers(slot.number, slot.generation)
            if (spent or not slot.wanted) and not is_read and self.shut(slot):
                continue
            # To the end of the row.
            del self._used[slot.number]
            self._used[slot.number] = slot

    def excuse(self, number: int) -> None:
        """Process `number` has ended: what it was reading it reads no more."""
        for slot in self._used.values():
            self.table.excuse(slot.number, slot.generation, number)
        self.sweep()

    def close(self) -> None:
        """Hold nothing any more, and let go of the memory; it lives for as long as anyone has a view of it."""
        os.close(self.fd)
        self._used.clear()
        self._extents = Extents(self.geometry.payloads)
        self.table, self.payloads = SlotTable(memoryview(b"")), memoryview(b"")

    def _release(self, slot: Slot) -> None:
        if self._used.pop(slot.number, None) is None:
            return  # The arena has been closed meanwhile.
        self._extents.release(slot.offset, slot.nbytes)
        self._numbers.append(slot.number)
