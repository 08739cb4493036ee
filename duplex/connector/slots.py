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

PROCESSES = 64
"""Processes that may read an arena; their numbers are below it."""

MAX_TAKES = 255
"""Of one payload."""

RECORD = 64 + 8 * PROCESSES
"""Bytes of one slot's record: two words of 8 bytes in a cache line of their own, then two cells of 4 per process."""

_WORDS, _CELLS = RECORD // 8, RECORD // 4
_OPEN, _SHARED = 0, 1
_TAKEN, _RELEASED = 16, 16 + PROCESSES

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
        self._takes = [memory[start : start + 4 * PROCESSES] for start in starts]
        self._both = [memory[start : start + 8 * PROCESSES] for start in starts]

    def __len__(self) -> int:
        return len(self._bytes) // RECORD

    def publish(self, slot: int, generation: int) -> None:
        """Let it be taken."""
        self._words[slot * _WORDS + _OPEN] = generation

    def shut(self, slot: int) -> None:
        """Let nobody take it any more. Whoever reads it reads on; only after a `barrier` does `reads` know of all."""
        self._words[slot * _WORDS + _OPEN] = 0

    def is_open(self, slot: int, generation: int) -> bool:
        return self._words[slot * _WORDS + _OPEN] == generation

    def clear(self, slot: int) -> None:
        """Forget all that was ever marked; only while nobody can take the slot."""
        self._bytes[slot * RECORD : (slot + 1) * RECORD] = bytes(RECORD)

    def share(self, slot: int, generation: int, readers: int) -> None:
        """Let this generation be taken `readers` times; only one process (control) may say so of a slot."""
        self._words[slot * _WORDS + _SHARED] = (generation & _TAGS) << 8 | readers

    def readers(self, slot: int, generation: int) -> int:
        """How often it may be taken."""
        word = self._words[slot * _WORDS + _SHARED]
        return word & MAX_TAKES if word >> 8 == (generation & _TAGS) else 1

    def takes(self, slot: int, generation: int) -> int:
        """How often it has been taken, by all processes."""
        row, tag = self._takes[slot].tobytes(), (generation & _TAGS).to_bytes(3, "little")
        # One search over the bytes: of nearly all payloads there is no cell, or one.
        return sum(_counts(row, tag).values()) if tag in row else 0

    def reads(self, slot: int, generation: int) -> bool:
        """Whether somebody reads it now."""
        row = self._both[slot].tobytes()
        taken, released = row[: 4 * PROCESSES], row[4 * PROCESSES :]
        if taken == released:
            return False
        tag = (generation & _TAGS).to_bytes(3, "little")
        return _counts(taken, tag) != _counts(released, tag)

    def taken(self, slot: int, generation: int, number: int) -> int:
        """How often process `number` has taken it."""
        return self._count(slot * _CELLS + _TAKEN + number, generation)

    def released(self, slot: int, generation: int, number: int) -> int:
        """How many of its takes process `number` has done with."""
        return self._count(slot * _CELLS + _RELEASED + number, generation)

    def mark_taken(self, slot: int, generation: int, number: int, count: int) -> None:
        """Process `number` has taken it `count` times in all."""
        self._cells[slot * _CELLS + _TAKEN + number] = (generation & _TAGS) << 8 | count

    def mark_released(self, slot: int, generation: int, number: int, count: int) -> None:
        """Process `number` has done with `count` of them."""
        self._cells[slot * _CELLS + _RELEASED + number] = (generation & _TAGS) << 8 | count

    def excuse(self, slot: int, generation: int, number: int) -> None:
        """Process `number` has ended: it is done with all that it has taken."""
        if taken := self.taken(slot, generation, number):
            self.mark_released(slot, generation, number, taken)

    def _count(self, at: int, generation: int) -> int:
        cell = self._cells[at]
        return cell & MAX_TAKES if cell >> 8 == (generation & _TAGS) else 0


def _counts(row: bytes, tag: bytes) -> dict[int, int]:
    """The counts of the cells with a tag, by process, without those that are 0."""
    counts: dict[int, int] = {}
    at = row.find(tag)
    while at >= 0:
        if at % 4 == 1 and row[at - 1]:
            counts[at // 4] = row[at - 1]
        at = row.find(tag, at + 1)
    return counts
