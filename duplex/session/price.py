"""What one session takes of the machine: a vector, because no single number says whether one more will fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a session takes, or several together. What is not named is nothing.

    Attributes:
        nbytes: by device.
        compute: by engine: seconds of its work per second of session.
    """

    nbytes: Mapping[str, int] = field(default_factory=dict)
    compute: Mapping[str, float] = field(default_factory=dict)

    def at_least(self, other: Price) -> Price:
        """The larger of the two in each dimension."""
        return Price(
            nbytes=_larger(self.nbytes, other.nbytes),
            compute=_larger(self.compute, other.compute),
        )


def total(prices: Iterable[Price]) -> Price:
    """All of them together."""
    nbytes: dict[str, int] = {}
    compute: dict[str, float] = {}
    for price in prices:
        for device, count in price.nbytes.items():
            nbytes[device] = nbytes.get(device, 0) + count
        for engine, seconds in price.compute.items():
            compute[engine] = compute.get(engine, 0.0) + seconds
    return Price(nbytes=nbytes, compute=compute)


def _larger(one: Mapping[str, N], other: Mapping[str, N]) -> dict[str, N]:
    larger = dict(one)
    for name, value in other.items():
        larger[name] = max(larger.get(name, value), value)
    return larger
