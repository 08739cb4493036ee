"""The newest input audio of a session, by position."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duplex.session.settings import SessionLimits

RING_S = 10.0
"""Input audio kept for effects that name it by position: what goes with a question about the end of a turn, the prefix
of an onset (5 s at most), and how far listening may be behind."""


def ring_samples(limits: SessionLimits) -> int:
    """Samples of input audio that each session keeps."""
    return round(RING_S * limits.input_hz)


def ring_bytes(limits: SessionLimits) -> int:
    """Memory of these."""
    return 2 * ring_samples(limits)


class AudioRing:
    """Keeps the last samples that were written; takes no memory before the first, and then grows to what it needs.

    Args:
        capacity: samples kept; the oldest go first.
    """

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._buffer = np.zeros(0, np.int16)
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Memory that it takes now."""
        return self._buffer.nbytes

    @property
    def start(self) -> int:
        """Position of the oldest sample kept."""
        return max(0, self._end - self._capacity)

    @property
    def end(self) -> int:
        """One past the newest."""
        return self._end

    def write(self, pcm: NDArray[np.int16]) -> None:
        """Append int16 [n]."""
        capacity = self._capacity
        self._end += len(pcm)
        self._grow(min(self._end, capacity))
        newest = pcm[-capacity:]
        at = (self._end - len(newest)) % capacity
        first = min(len(newest), capacity - at)
        self._buffer[at : at + first] = newest[:first]
        self._buffer[: len(newest) - first] = newest[first:]

    def _grow(self, needed: int) -> None:
        """Twice as large each time. Up to its capacity nothing is written over, and all stays in its place."""
        if needed > len(self._buffer):
            grown = np.zeros(min(self._capacity, max(needed, 2 * len(self._buffer))), np.int16)
            grown[: len(self._buffer)] = self._buffer
            self._buffer = grown

    def read(self, start: int, end: int) -> NDArray[np.int16]:
        """A copy of the samples from `start` to `end`; what is no longer kept is left out at the front."""
        start, end = max(start, self.start), min(end, self._end)
        if end <= start:
            return np.zeros(0, np.int16)
        capacity = self._capacity
        first, last = start % capacity, (end - 1) % capacity + 1
        if first < last:
            return self._buffer[first:last].copy()
        return np.concatenate([self._buffer[first:], self._buffer[:last]])
