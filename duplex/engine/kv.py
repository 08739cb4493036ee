"""One conversation's prefix in a slot of a language model, as typed state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from duplex.errors import StateError
from duplex.state.kind import StateKind
from duplex.state.ledger import Storage


class KvCopier(Protocol):
    """Copies what is in an idle slot; both wait for the engine."""

    def save(self, slot: int) -> tuple[int, bytes]: ...

    def load(self, slot: int, copy: bytes) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KvSnapshot:
    """A prefix outside its engine: its length, and keys and values as the engine writes them."""

    tokens: int
    copy: bytes


class KvSlot:
    """What one conversation has in its slot. The slot's memory is the engine's own, and whole from the first token on.

    A turn writes behind what is there. Whatever of it does not come true (a provisional turn that the user talked on
    over, words that nobody heard) need not be taken out: of a slot llama.cpp uses only as many tokens as the next
    prompt begins with, and writes over the rest. So nothing shows that no later prompt says again, and `discard` has
    nothing to do. What a turn has written over is gone, committed or not: `ran` says how much that left.

    Args:
        index: of the slot.
        nbytes: of the whole slot.
        copier: for `snapshot` and `restore`.
        read_s: seconds that so many tokens of a prompt take.
        on_close: told that the slot is free, and how much there was in it.
    """

    kind = StateKind.KV

    def __init__(
        self,
        *,
        index: int,
        nbytes: int,
        device: str,
        copier: KvCopier,
        read_s: Callable[[int], float],
        on_close: Callable[[int, int], None],
    ) -> None:
        self.index = index
        self.in_use = False
        self.held: int | None = None
        """Tokens in the slot; None where a turn broke off, or before the first: as many as are committed, or more."""
        self._storage = Storage(index, device, nbytes)
        self._copier = copier
        self._read_s = read_s
        self._on_close = on_close
        self._committed = 0

    @property
    def length(self) -> int:
        """Tokens."""
        return self._committed

    @property
    def rebuild_s(self) -> float | None:
        """The prompt is read again."""
        return self._read_s(self._committed)

    def storages(self) -> Iterable[Storage]:
        return (self._storage,)

    def ran(self, *, cached: int | None, held: int | None) -> None:
        """A turn has run: `cached` tokens were as its prompt wanted them, and all behind was written over.

        Args:
            cached: None where it did not come so far as to look.
            held: tokens in the slot now; None where that is not known.
        """
        if cached is not None:
            self._committed = min(self._committed, cached)
            self.held = held

    def stage(self) -> None:
        """A turn begins."""

    def commit(self) -> None:
        """The turn came to its end. Raises StateError where nobody said what it wrote."""
        if self.held is None:
            raise StateError(f"slot {self.index} is committed, and nobody knows what is in it")
        self._committed = self.held

    def discard(self) -> None:
        """See the class."""

    def view(self) -> int:
        """Tokens that the next prompt may find."""
        return self._committed

    def snapshot(self) -> KvSnapshot:
        """Waits for the engine. Raises StageError."""
        tokens, copy = self._copier.save(self.index)
        return KvSnapshot(tokens=tokens, copy=copy)

    def restore(self, snapshot: object) -> None:
        """Waits for the engine. Raises StageError."""
        if not isinstance(snapshot, KvSnapshot):
            raise StateError("this is no copy of a prefix")
        self._committed, self.held = 0, None
        self.held = self._copier.load(self.index, snapshot.copy)

    def findings(self) -> Iterable[str]:
        """What can be said without asking the engine; `LlamaServer.check_integrity` asks it."""
        if self.held is not None and self._committed > self.held:
            yield f"{self._committed} tokens are committed, and {self.held} are in slot {self.index}"

    def close(self) -> None:
        """The slot is free; what is in it stays until somebody else's prompt does not begin with it."""
        self._on_close(self.index, self._committed)
