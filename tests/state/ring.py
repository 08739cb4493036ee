"""A ring of samples on pages, which forks share: the smallest state that has staged writes, aliases and copies."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from duplex.state.kind import StateKind
from duplex.state.ledger import Storage

PAGE = 8
"""Samples on a page."""
PAGE_BYTES = 2 * PAGE

_serials = itertools.count()


class Page:
    """int16 [PAGE], never changed once written: whoever shares it may."""

    def __init__(self, samples: NDArray[np.int16]) -> None:
        self.serial = next(_serials)
        self.samples = samples.astype(np.int16)


class RingValue:
    """Keeps the newest pages; `fork` is another ring that shares them.

    Args:
        pages: most that are kept.
        device: where they lie.
        cost_s: to make it again; None for never.
    """

    kind = StateKind.RING

    def __init__(self, *, pages: int = 4, device: str = "host", cost_s: float | None = None) -> None:
        self.most = pages
        self.device = device
        self.cost_s = cost_s
        self.in_use = False
        self.closed = False
        self._committed: tuple[Page, ...] = ()
        self._staged: tuple[Page, ...] | None = None

    def write(self, samples: NDArray[np.int16]) -> None:
        """Stage one page more."""
        assert self._staged is not None
        self._staged = (*self._staged, Page(samples))[-self.most :]

    def fork(self) -> RingValue:
        """Another one with what is committed, on the same pages."""
        other = RingValue(pages=self.most, device=self.device, cost_s=self.cost_s)
        other._committed = self._committed
        return other

    @property
    def length(self) -> int:
        return PAGE * len(self._committed)

    @property
    def rebuild_s(self) -> float | None:
        return self.cost_s

    def kept(self) -> set[Page]:
        """The pages of what is committed."""
        return set(self._committed)

    def pages(self) -> set[Page]:
        return {*self._committed, *(self._staged or ())}

    def storages(self) -> Iterable[Storage]:
        return [Storage(page.serial, self.device, page.samples.nbytes) for page in self.pages()]

    def stage(self) -> None:
        assert self._staged is None
        self._staged = self._committed

    def commit(self) -> None:
        assert self._staged is not None
        self._committed, self._staged = self._staged, None

    def discard(self) -> None:
        self._staged = None

    def view(self) -> list[int]:
        return [int(sample) for page in self._committed for sample in page.samples]

    def snapshot(self) -> list[NDArray[np.int16]]:
        return [page.samples.copy() for page in self._committed]

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, list)
        self._staged = tuple(Page(samples) for samples in snapshot)[-self.most :]

    def findings(self) -> Iterable[str]:
        if any(page.samples.shape != (PAGE,) for page in self.pages()):
            yield "a page has another size"

    def close(self) -> None:
        assert not self.closed
        self.closed = True
        self._committed, self._staged = (), None
