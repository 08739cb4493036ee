"""The newest input audio of a session, by position."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class AudioRing:
    """Keeps the last samples that were written.

    Args:
        capacity: samples kept; the oldest go first.
    """

    def __init__(self, *, capacity: int) -> None:
        self._buffer = np.zeros(capacity, np.int16)
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Memory that it takes, full or not."""
        return self._buffer.nbytes

    @property
    def start(self) -> int:
        """Position of the oldest sample kept."""
        return max(0, self._end - len(self._buffer))

    @property
    def end(self) -> int:
        """One past the newest."""
        return self._end

    def write(self, pcm: NDArray[np.int16]) -> None:
        """Append int16 [n]."""
        capacity = len(self._buffer)
        self._end += len(pcm)
        newest = pcm[-capacity:]
        at = (self._end - len(newest)) % capacity
        first = min(len(newest), capacity - at)
        self._buffer[at : at + first] = newest[:first]
        self._buffer[: len(newest) - first] = newest[first:]

    def read(self, start: int, end: int) -> NDArray[np.int16]:
        """A copy of the samples from `start` to `end`; what is no longer kept is left out at the front."""
        start, end = max(start, self.start), min(end, self._end)
        if end <= start:
            return np.zeros(0, np.int16)
        capacity = len(self._buffer)
        first, last = start % capacity, (end - 1) % capacity + 1
        if first < last:
            return self._buffer[first:last].copy()
        return np.concatenate([self._buffer[first:], self._buffer[:last]])
