"""The latest stretch of a session's input, by position."""

from __future__ import annotations

import numpy as np

from duplex.audio.pcm import Samples


class AudioTape:
    """Holds the last `capacity` samples; older ones fall off. Positions never go back.

    Args:
        capacity: most samples held.
        slack: samples appended between two moves of the whole; costs that much memory more.
    """

    def __init__(self, *, capacity: int, slack: int = 16_000) -> None:
        self._capacity = capacity
        self._buffer = np.zeros(capacity + slack, dtype=np.int16)
        self._low = 0
        self._high = 0
        self.end = 0
        """One past the position of the last sample."""

    @property
    def start(self) -> int:
        """Position of the first sample held."""
        return self.end - (self._high - self._low)

    def append(self, samples: Samples, start: int) -> None:
        """Add int16 [n] whose first sample is at `start`. What is held already is skipped; a gap becomes silence."""
        if self._low == self._high:
            self.end = max(self.end, start)
        gap = start - self.end
        if gap > 0:
            self._add(np.zeros(min(gap, self._capacity), dtype=np.int16))
            self.end = start
        fresh = samples[self.end - start :]
        self._add(fresh[-self._capacity :])
        self.end = start + max(len(samples), self.end - start)

    def read(self, start: int, end: int) -> Samples:
        """What is held of [start, end), int16, as a copy."""
        low = min(max(start, self.start), self.end)
        high = min(max(end, low), self.end)
        offset = self._low - self.start
        return self._buffer[low + offset : high + offset].copy()

    def forget_before(self, position: int) -> None:
        """Let go of what lies before `position`."""
        self._low += min(max(0, position - self.start), self._high - self._low)

    def _add(self, samples: Samples) -> None:
        if self._high + len(samples) > len(self._buffer):
            keep = min(self._high - self._low, self._capacity - len(samples))
            self._buffer[:keep] = self._buffer[self._high - keep : self._high]
            self._low, self._high = 0, keep
        self._buffer[self._high : self._high + len(samples)] = samples
        self._high += len(samples)
        self._low = max(self._low, self._high - self._capacity)
