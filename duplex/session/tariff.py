"""What the next session will take: declared at first, then learnt from those that run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from duplex.session.price import Price

QUANTILE = 0.9
KEPT = 256
ENOUGH = 16

IDLE = 1e-4
"""Seconds of an engine per second up to which it has not worked: getting ready for a session that says nothing takes
some microseconds."""


class Tariff:
    """Learns the price of a session from windows of running ones.

    Compute is the 90th percentile of the newest windows, engine by engine, and of those windows only in which the
    engine worked for that session. A mean would be wrong twice: half of all sessions are dearer, and an hour of open
    microphones that nobody speaks into would make talking look cheap, until all of them talk. A percentile of busy
    windows does not move for silence; and sessions do not peak together, so the sum of so many of their percentiles
    is more than they will take, which is the side to err on. Until an engine has `enough` windows, its price is the
    larger of what was declared and the dearest window seen.

    Bytes are the most that any of these windows had, and what was declared at least: they cannot be taken back.

    Args:
        declared: by the graph.
        enough: windows after which the declaration of an engine is not needed any more.
        oversubscribe: compute is divided by it: a bet that so many sessions never talk at once. Who is measured to take
            more than that is reckoned at what it takes all the same (`Admission.taken`).
    """

    def __init__(self, *, declared: Price, enough: int = ENOUGH, oversubscribe: float = 1.0) -> None:
        self._declared = declared
        self._enough = enough
        self._oversubscribe = oversubscribe
        self._compute: dict[str, deque[float]] = {}
        self._nbytes: dict[str, deque[int]] = {}
        self._price: Price | None = None

    @property
    def windows(self) -> dict[str, int]:
        """Windows that the price of each engine rests on."""
        return {engine: len(seen) for engine, seen in self._compute.items()}

    @property
    def price(self) -> Price:
        """Of one more session."""
        if self._price is None:
            compute = dict(self._declared.compute)
            for engine, seen in self._compute.items():
                compute[engine] = self._safe(seen, compute.get(engine, 0.0))
            nbytes = dict(self._declared.nbytes)
            for device, held in self._nbytes.items():
                nbytes[device] = max(nbytes.get(device, 0), *held)
            compute = {engine: rate / self._oversubscribe for engine, rate in compute.items()}
            self._price = Price(nbytes=nbytes, compute=compute)
        return self._price

    def learn(self, *, compute: Mapping[str, float], nbytes: Mapping[str, int]) -> None:
        """Take one window of one session: seconds of each engine per second, and bytes held by device."""
        for engine, rate in compute.items():
            if rate > IDLE:
                self._compute.setdefault(engine, deque(maxlen=KEPT)).append(rate)
        for device, held in nbytes.items():
            self._nbytes.setdefault(device, deque(maxlen=KEPT)).append(held)
        self._price = None

    def forget(self) -> None:
        """Go back to what was declared."""
        self._compute.clear()
        self._nbytes.clear()
        self._price = None

    def _safe(self, seen: deque[float], declared: float) -> float:
        if len(seen) < self._enough:
            return max(declared, *seen)
        return sorted(seen)[int(QUANTILE * (len(seen) - 1) + 0.5)]
