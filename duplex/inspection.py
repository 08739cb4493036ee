"""`GET /v1/state`: whether what is held is what the books say, and how much of each budget that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from duplex.state.ledger import Ledger


class Books(Protocol):
    """What is looked at of a `StateStore`, whatever it stores."""

    @property
    def owner(self) -> str: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def counters(self) -> Counter[str]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBudget:
    """One owner's state on one device: `taken` of `most` bytes, each storage once, in so many pieces."""

    owner: str
    device: str
    taken: int
    most: int
    pieces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found.

    Attributes:
        proven: whether ledger and reality are the same.
        findings: one sentence for each difference; empty where that is proven.
        evictions: pieces that had to go for others so far, by owner.
        refusals: times that somebody was refused for want of room, by owner.
    """

    object: str
    proven: bool
    findings: list[str]
    budgets: list[StateBudget]
    evictions: dict[str, int]
    refusals: dict[str, int]


def inspection(stores: Iterable[Books], findings: list[str]) -> Inspection:
    """Put together what `stores` say of themselves and what was found in them."""
    stores = list(stores)
    return Inspection(
        object="state",
        proven=not findings,
        findings=findings,
        budgets=[
            StateBudget(
                owner=store.owner, device=device, taken=store.ledger.taken(device), most=most, pieces=len(store)
            )
            for store in stores
            for device, most in store.ledger.budgets.items()
        ],
        evictions={store.owner: store.counters["evictions"] for store in stores},
        refusals={store.owner: store.counters["refusals"] for store in stores},
    )
