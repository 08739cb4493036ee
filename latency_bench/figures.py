"""Medians, percentiles and word errors."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float | None:
    """Nearest rank: the smallest value that at least `share` of all values do not exceed; None of nothing.

    It is always a value that was measured; the 0.99 of fewer than 100 values is the worst of them.
    """
    if not values:
        return None
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def median(values: Sequence[float]) -> float | None:
    """The middle value, or the mean of the two in the middle; None of nothing."""
    return statistics.median(values) if values else None


def words(text: str) -> list[str]:
    """Words as they are compared: lower case, letters, digits and apostrophes only."""
    return re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("\u2019", "'")).split()


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """Substitutions, deletions and insertions (Levenshtein) that turn `said` into `heard`; and the words of `said`."""
    target, found = words(said), words(heard)
    row = list(range(len(found) + 1))
    for index, word in enumerate(target, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(found, 1):
            diagonal, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, diagonal + (word != other)),
            )
    return row[-1], len(target)
