"""The names of state: what control holds of it, and never its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from duplex.state.kind import StateKind


class StateKey(NamedTuple):
    """Names one piece of state of one owner."""

    session_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRef:
    """One piece of state, as it was when somebody looked.

    Attributes:
        owner: the stage or the part of the server that holds it, and alone may change it.
        version: commits so far; 0 before the first.
        length: how much there is of it, in the unit of its kind.
        nbytes: by device. A storage that several share is in each of their refs, and once in the ledger.
        rebuild_s: seconds that it takes to make it again; None where it cannot be made again, and is never evicted.
    """

    owner: str
    session_id: str
    name: str
    kind: StateKind
    version: int
    length: int
    nbytes: Mapping[str, int]
    rebuild_s: float | None
