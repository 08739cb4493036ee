"""Where speech really ended: by its loudness, which falls some 100 ms before a detector's probability does."""

from __future__ import annotations

from collections.abc import Sequence

RANGE_DB = 25.0
"""What is so much weaker than the loudest of the speech around it is not part of a word, but for its faintest end."""

LEAST_RANGE_DB = 15.0
"""The same in a noisy room: there the noise hides what is weaker."""

ABOVE_ROOM_DB = 12.0
"""A frame of noise is seldom so much louder than the noise is on average."""

ROOM_S = 1.0
"""Over so long the room's noise is averaged."""

DECAY_DB_S = 10.0
"""How fast the loudest is forgotten, so that a sentence which begins aloud may end softly."""

LAG_MS = 160
"""A detector follows loudness by no more than this: a longer way back would be into the speech itself."""

SOFT_MS = 224
"""A detector that still hears a voice so long after the last loud frame hears one that speaks softly now."""

QUIET_MS = 40
"""What is quiet for so long is a pause, or the closure before a very slow consonant."""

AGAIN_WINDOWS = 3
"""So many loud windows after a pause may be a word that begins; more, and no speech among them, are noise."""


class Loudness:
    """Follows the loudness of the room and of one turn, frame by frame. Where the room is nearly as loud as the speech
    it says nothing: nothing is quiet then, and the end of the speech is where the detector saw it.

    Args:
        hz: samples per second of the positions.
    """

    def __init__(self, *, hz: int) -> None:
        self._hz = hz
        self._room: float | None = None
        self.forget()

    def forget(self) -> None:
        """A new turn begins."""
        self._peak: float | None = None
        self._loud_end = 0
        self._position = 0
        self._again = 0

    @property
    def quiet(self) -> bool:
        """Whether it has been far below the speech for `QUIET_MS`."""
        return self._peak is not None and self._position - self._loud_end >= QUIET_MS * self._hz // 1000

    @property
    def rising(self) -> bool:
        """Whether it was quiet and has just become loud: a word may be beginning."""
        return 0 < self._again <= AGAIN_WINDOWS

    def room(self, levels: Sequence[float], *, window: int) -> None:
        """Take the levels of a window of `window` samples in which nobody speaks."""
        if levels:
            mean = sum(levels) / len(levels)
            share = min(1.0, window / (ROOM_S * self._hz))
            self._room = mean if self._room is None else self._room + share * (mean - self._room)

    @property
    def _floor(self) -> float:
        """What is weaker than this is no speech; of a turn that has begun."""
        assert self._peak is not None
        floor = self._peak - RANGE_DB
        if self._room is not None:
            floor = max(floor, self._room + ABOVE_ROOM_DB)
        return min(floor, self._peak - LEAST_RANGE_DB)

    def hear(self, levels: Sequence[float], *, end: int, window: int, voice: bool) -> None:
        """Take the levels (dBFS) of the window of `window` samples that ends at `end`.

        `voice`: a detector takes it for speech, of which loudness knows better where it ends.
        """
        if not levels:
            return
        loudest = max(levels)
        if self._peak is None or (voice and end - self._loud_end > SOFT_MS * self._hz // 1000):
            self._peak = loudest
        elif voice and not self.quiet:
            self._peak = max(self._peak - DECAY_DB_S * window / self._hz, loudest)
        floor = self._floor
        if loudest < floor:
            self._again = 0
        elif not voice and (self.quiet or self._again):
            self._again += 1
        else:
            self._again = 0
            last = max(number for number, level in enumerate(levels, start=1) if level >= floor)
            self._loud_end = end - window + last * window // len(levels)
        self._position = end

    def end_of(self, speech_end: int) -> int:
        """Where the speech that a detector saw end at `speech_end` was last loud."""
        if self._peak is None:
            return speech_end
        return min(max(self._loud_end, speech_end - LAG_MS * self._hz // 1000), speech_end)
