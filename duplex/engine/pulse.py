"""Whether an engine process still lives, by the moments at which it was heard. Pure: time is an argument."""

from __future__ import annotations

LATE = 0.25
"""Part of the silence that a timer may be late before that says something of whoever listens."""


class Pulse:
    """The last moment at which a process was heard, and how long it may be silent.

    Args:
        silence_s: seconds without a word after which it is taken for dead.
        now: seconds, of a monotonic clock.
    """

    def __init__(self, *, silence_s: float, now: float) -> None:
        self._silence_s = silence_s
        self._heard = now
        self._forgiven = False

    @property
    def deadline(self) -> float:
        """When to ask `is_over` next."""
        return self._heard + self._silence_s

    def beat(self, now: float) -> None:
        """It was heard."""
        self._heard = now
        self._forgiven = False

    def is_over(self, now: float) -> bool:
        """Whether it is dead.

        Whoever asks long after the deadline has stood still itself, and may have stood still together with the process
        (a machine that was paused): then the process gets a second term, once.
        """
        if now < self.deadline:
            return False
        if now - self.deadline > LATE * self._silence_s and not self._forgiven:
            self._forgiven = True
            self._heard = now
            return False
        return True
