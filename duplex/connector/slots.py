"""The table at the head of an arena: who may read a slot, who has, and who still does.

It lies in shared memory, and no lock does: a process that dies would take a lock with it. Instead each word has one
writer, and each change is one store of one word:

    open      the owner: the generation that may be taken now, or 0
    shared    control: generation and readers, where a payload may be taken more than once
    taken     process r, in its own cell: how often it has taken this generation
    released  process r, in its own cell: how many of these it has done with

A cell holds its count and the low bits of the generation that it is of, so that nobody has to clear it: the cell of
another generation counts as nothing. A reader marks its take *before* it looks whether the slot is open, and the owner
shuts the slot *before* it looks whether somebody reads. So one of them sees the other (Dekker's rule), and bytes that
are read are never given to another payload. That needs a full barrier between the store and the look: `barrier`.
"""

from __future__ import annotations

import threading
from enum import IntEnum

PROCESSES = 64
"""Processes that may read an arena; their numbers are below it."""

MAX_TAKES = 255
"""Of one payload."""

RECORD = 64 + 8 * PROCESSES
"""Bytes of one slot's record: two words of 8 bytes in a cache line of their own, then two cells of 4 per process."""

_WORDS, _CELLS = RECORD // 8, RECORD // 4
_OPEN, _SHARED = 0, 1
_TAKEN, _RELEASED = 16, 16 + PROCESSES
_ROW = 4 * PROCESSES

_TAG_BITS = 24
_TAGS = (1 << _TAG_BITS) - 1
_lock = threading.Lock()


def barrier() -> None:
    """No load after it is served before the stores before it are visible to all.

    Taking a lock is one locked instruction on x86-64, which is a full barrier there. Elsewhere it orders less by the
    letter; some hundred instructions of the interpreter lie between a store and the look that follows it.
    """
    with _lock:
        pass


def wraps(generation: int) -> bool:
    """Whether the tags of cells begin anew with this generation: what older ones have left must be cleared first."""
    return generation & _TAGS == 0


class Claim(IntEnum):
    """Why a payload cannot be taken."""

    GONE = -1
    TAKEN = -2


def tag_of(generation: int) -> bytes:
    """How a cell of this generation is found: all of it but the count, which is its first byte."""
    return (generation & _TAGS).to_bytes(3, "little")


class SlotTable:
    """The records of all slots, over memory that is shared and writable. Cells are little-endian.

    Args:
        memory: `RECORD` bytes per slot, zeroed when the arena was made.
    """

    def __init__(self, memory: memoryview) -> None:
        self._bytes = memory
        self._words = memory.cast("Q")
        self._cells = memory.cast("I")
        starts = range(4 * _TAKEN, len(memory), RECORD)
        self._takes = [memory[start : start + _ROW] for start in starts]
        self._both = [memory[start : start + 2 * _ROW] for start in starts]

    def __len__(self) -> int:
        return len(self._both)

    def publish(self, slot: int, generation: int) -> None:
        """The owner: let it be taken."""
        self._words[slot * _WORDS + _OPEN] = generation

    def shut(self, slot: int) -> None:
        """The owner: let nobody take it any more. Whoever reads it reads on; `state` knows of all of them then."""
        self._words[slot * _WORDS + _OPEN] = 0
        barrier()

    def clear(self, slot: int) -> None:
        """The owner: forget all that was ever marked; only while nobody can take the slot."""
        self._bytes[slot * RECORD : (slot + 1) * RECORD] = bytes(RECORD)

    def is_open(self, slot: int, generation: int) -> bool:
        """Whether it may be taken, as far as the owner is concerned."""
        return self._words[slot * _WORDS + _OPEN] == generation

    def share(self, slot: int, generation: int, readers: int) -> None:
        """Control: let this generation be taken `readers` times."""
        self._words[slot * _WORDS + _SHARED] = (generation & _TAGS) << 8 | readers

    def readers(self, slot: int, generation: int) -> int:
        """How often it may be taken: once where nobody has said otherwise."""
        word = self._words[slot * _WORDS + _SHARED]
        return word & MAX_TAKES if word >> 8 == generation & _TAGS else 1

    def state(self, slot: int, tag: bytes) -> tuple[int, bool]:
        """How often it has been taken, and whether somebody reads it now; `tag` is that of its generation."""
        row = self._both[slot].tobytes()
        at = row.find(tag)
        if at < 0:
            return 0, False
        if at % 4 == 1 and row.find(tag, at + 1) == at + _ROW and row.count(tag) == 2:
            return row[at - 1], row[at - 1] != row[at + _ROW - 1]  # One process has taken it: nearly always so.
        taken = _counts(row[:_ROW], tag)
        return sum(taken.values()), taken != _counts(row[_ROW:], tag)

    def claim(self, slot: int, generation: int, number: int) -> int:
        """Process `number` takes it: how often it has with this time, or a `Claim`."""
        words, word = self._words, slot * _WORDS + _OPEN
        if words[word] != generation:
            return Claim.GONE
        row, tag, count = self._takes[slot].tobytes(), tag_of(generation), 0
        if tag in row:
            counts = _counts(row, tag)
            if counts and sum(counts.values()) >= self.readers(slot, generation):
                return Claim.TAKEN
            count = counts.get(number, 0)
        cells, cell = self._cells, slot * _CELLS + _TAKEN + number
        cells[cell] = (generation & _TAGS) << 8 | count + 1
        barrier()
        if words[word] != generation:
            cells[cell] = (generation & _TAGS) << 8 | count
            return Claim.GONE
        return count + 1

    def done(self, slot: int, generation: int, number: int, count: int) -> None:
        """Process `number` has done with `count` of its takes: the one store that is a release."""
        self._cells[slot * _CELLS + _RELEASED + number] = (generation & _TAGS) << 8 | count

    def excuse(self, slot: int, generation: int, number: int) -> None:
        """The owner: process `number` has ended, and is done with all that it has taken."""
        cell = self._cells[slot * _CELLS + _TAKEN + number]
        if cell >> 8 == generation & _TAGS and cell & MAX_TAKES:
            self._cells[slot * _CELLS + _RELEASED + number] = cell

    def released(self, slot: int, generation: int, number: int) -> int:
        """How many of its takes process `number` has done with."""
        cell = self._cells[slot * _CELLS + _RELEASED + number]
        return cell & MAX_TAKES if cell >> 8 == generation & _TAGS else 0


def _counts(row: bytes, tag: bytes) -> dict[int, int]:
    """The counts of the cells with a tag, by process, without those that are 0."""
    counts: dict[int, int] = {}
    at = row.find(tag)
    while at >= 0:
        if at % 4 == 1 and row[at - 1]:
            counts[at // 4] = row[at - 1]
        at = row.find(tag, at + 1)
    return counts
