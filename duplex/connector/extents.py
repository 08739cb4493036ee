"""Which bytes of an arena are free. Pure: it counts, and touches no memory."""

from __future__ import annotations

from bisect import bisect_left

ALIGN = 64
"""Bytes; every extent begins at a multiple of it, a cache line and the widest vector that any engine loads."""


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to a multiple of `ALIGN`."""
    return -(-nbytes // ALIGN) * ALIGN


class Extents:
    """First fit: the lowest free extent that is large enough, so that the same warm pages are used again and again.

    Args:
        size: bytes in all, a multiple of `ALIGN`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._starts = [0]
        self._ends = [size]

    @property
    def free(self) -> int:
        """Bytes that are free, in all extents together."""
        return sum(self._ends) - sum(self._starts)

    def allocate(self, nbytes: int) -> int | None:
        """The offset of `nbytes` (a positive multiple of `ALIGN`) that were free and are no more; None: none fits."""
        for number, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            if end - start >= nbytes:
                if end - start == nbytes:
                    del self._starts[number], self._ends[number]
                else:
                    self._starts[number] = start + nbytes
                return start
        return None

    def release(self, offset: int, nbytes: int) -> None:
        """Give back what `allocate` gave; neighbours become one extent."""
        number = bisect_left(self._starts, offset)
        start, end = offset, offset + nbytes
        if number < len(self._starts) and self._starts[number] == end:
            end = self._ends[number]
            del self._starts[number], self._ends[number]
        if number and self._ends[number - 1] == start:
            number -= 1
            start = self._starts[number]
            del self._starts[number], self._ends[number]
        self._starts.insert(number, start)
        self._ends.insert(number, end)
