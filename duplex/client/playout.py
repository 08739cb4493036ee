"""A loudspeaker that nobody hears: what a listener would have heard, and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duplex.audio.pcm import Samples


@dataclass(slots=True, kw_only=True)
class _Stretch:
    item_id: str
    start_s: float
    samples: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """What a flush took away.

    Attributes:
        item_id: the answer that was being played.
        played: samples of it that had been heard.
        played_ms: the same, rounded down.
    """

    item_id: str
    played: int
    played_ms: int


class Playout:
    """Plays what arrives at once, or behind what still plays; knows no clock, times are the caller's.

    Args:
        rate_hz: of everything that is put.
    """

    def __init__(self, *, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._stretches: list[_Stretch] = []

    @property
    def end_s(self) -> float:
        """When all that was put has been played; 0 before there was any."""
        if not self._stretches:
            return 0.0
        last = self._stretches[-1]
        return last.start_s + len(last.samples) / self._rate_hz

    def put(self, item_id: str, samples: Samples, now: float) -> float:
        """Queue int16 [n]; returns when its first sample is heard."""
        start_s = max(now, self.end_s)
        self._stretches.append(_Stretch(item_id=item_id, start_s=start_s, samples=samples))
        return start_s

    def flush(self, now: float) -> Dropped | None:
        """Stop at once; None where not even one sample was left to play."""
        if self.end_s - now < 1.0 / self._rate_hz:
            return None
        item_id = next(s.item_id for s in self._stretches if s.start_s + len(s.samples) / self._rate_hz > now)
        for stretch in self._stretches:
            heard = max(0, round((now - stretch.start_s) * self._rate_hz))
            stretch.samples = stretch.samples[:heard]
        self._stretches = [stretch for stretch in self._stretches if len(stretch.samples)]
        played = self.played(item_id, now)
        return Dropped(item_id=item_id, played=played, played_ms=played * 1000 // self._rate_hz)

    def played(self, item_id: str, now: float) -> int:
        """Samples of an answer that have been heard by `now`."""
        return sum(
            min(len(stretch.samples), max(0, round((now - stretch.start_s) * self._rate_hz)))
            for stretch in self._stretches
            if stretch.item_id == item_id
        )

    def render(self, start_s: float) -> Samples:
        """All that was heard on the axis of time, int16 [n]; sample 0 is what was heard at `start_s`."""
        length = max(0, round((self.end_s - start_s) * self._rate_hz))
        heard = np.zeros(length, np.int16)
        for stretch in self._stretches:
            first = max(0, round((stretch.start_s - start_s) * self._rate_hz))
            # Rounding may push the last stretch one sample past the end.
            piece = stretch.samples[: length - first]
            heard[first : first + len(piece)] = piece
        return heard
