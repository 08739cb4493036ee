"""How long sessions last, and so when one will end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

KEPT = 64


class Lengths:
    """Reckons with sessions that end independently of their age, each at the same rate.

    The mean length is (time of all that ended and of all that run) / (number that ended), the maximum-likelihood
    estimate for such lengths where some have not ended yet: long sessions that go on count, not only those that were
    short enough to be over. Of n that are held one then ends every mean / n seconds.
    """

    def __init__(self) -> None:
        self._ended: deque[float] = deque(maxlen=KEPT)

    def ended(self, length_s: float) -> None:
        """A session is over."""
        self._ended.append(length_s)

    def forget(self) -> None:
        """Know nothing again."""
        self._ended.clear()

    def eta_s(self, position: int, ages_s: Iterable[float]) -> float | None:
        """When the one at `position` (1 is the next) may expect a place; None where nothing is known.

        Args:
            position: in the queue.
            ages_s: of the sessions that are held.
        """
        ages = list(ages_s)
        if not self._ended or not ages:
            return None
        mean = (sum(self._ended) + sum(ages)) / len(self._ended)
        return position * mean / len(ages)
