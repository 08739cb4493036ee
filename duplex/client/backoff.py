"""How long to wait between attempts to connect again. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between attempts to connect again: the first attempt is made at once, then `first_s`, and each later one
    `factor` times as long as that before, `most_s` at most; half of each is chance."""

    first_s: float = 0.1
    factor: float = 2.0
    most_s: float = 5.0

    def pause_s(self, attempt: int, chance: float) -> float:
        """Before this attempt, from 0; `chance` in [0, 1)."""
        if not attempt:
            return 0.0
        return min(self.most_s, self.first_s * self.factor ** (attempt - 1)) * (0.5 + 0.5 * chance)
