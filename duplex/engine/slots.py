"""Which conversation has which slot of a language model. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from duplex.engine.kv import KvCopier, KvSlot
from duplex.engine.side_door import SlotReport
from duplex.errors import StaleState, StateFull, UnknownState
from duplex.session.fence import Fence
from duplex.state.ref import StateKey
from duplex.state.store import StateSnapshot, StateStore

DEVICE = "host"
KV = "kv"


class KvSlots:
    """A slot for each conversation that has had a prompt, as long as there are slots; then the idle one goes that is
    the cheapest to read again for its age (`state.eviction`), and is read again when its turn comes.

    One request at a time runs on a slot: a second one of the same conversation waits, which a barge-in makes short,
    instead of computing its prefix again elsewhere. Where every slot runs, who has none waits too. Callers hold the
    lock that they guard this with.

    Args:
        owner: of the state, by name.
        slots: how many there are.
        slot_bytes: of one.
        copier: copies what is in one.
        read_s: seconds that so many tokens of a prompt take.
    """

    def __init__(
        self, *, owner: str, slots: int, slot_bytes: int, copier: KvCopier, read_s: Callable[[int], float]
    ) -> None:
        self.store: StateStore[KvSlot] = StateStore(owner=owner, budgets={DEVICE: slots * slot_bytes})
        self.rebuilt_tokens = 0
        """Tokens that were read again because their slot had been given to another conversation."""
        self._slots = slots
        self._slot_bytes = slot_bytes
        self._copier = copier
        self._read_s = read_s
        self._free = list(range(slots))
        self._running: dict[int, StateKey] = {}
        self._turns: Counter[int] = Counter()
        self._lost: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many slots there are."""
        return self._slots

    @property
    def busy(self) -> int:
        """Slots that run a request now."""
        return len(self._running)

    def could_run(self, session_id: str) -> bool:
        """Whether a request of this conversation would get a slot now, its own or another."""
        slot = self.store.get(StateKey(session_id, KV))
        return slot.index not in self._running if slot is not None else self.busy < self._slots

    def acquire(self, fence: Fence) -> KvSlot | None:
        """A slot for a request, whose fence is the live one from now on; None: try again when one was given back.

        Raises StaleState where a later fence is live.
        """
        self.store.advance(fence)
        key = StateKey(fence.session_id, KV)
        slot = self.store.get(key) or self._allocate(key)
        if slot is None or slot.index in self._running:
            return None
        self.store.stage(key, fence)
        self._running[slot.index] = key
        self._turns[slot.index] += 1
        slot.in_use = True
        return slot

    def _allocate(self, key: StateKey) -> KvSlot | None:
        try:
            return self.store.allocate(key, {DEVICE: self._slot_bytes}, lambda: self._make(key))
        except StateFull:
            return None

    def _make(self, key: StateKey) -> KvSlot:
        index = next(index for index in self._free if index not in self._running)
        self._free.remove(index)

        def closed(index: int, tokens: int) -> None:
            self._free.insert(0, index)
            self._lost[key.session_id] = tokens

        return KvSlot(
            index=index,
            nbytes=self._slot_bytes,
            device=DEVICE,
            copier=self._copier,
            read_s=self._read_s,
            on_close=closed,
        )

    def give_back(self, slot: KvSlot, fence: Fence, *, cached: int | None, prompt: int, held: int | None) -> None:
        """The request on `slot` is over; its conversation keeps the slot.

        Args:
            cached, held: see `KvSlot.ran`; a request that did not come to its end has None for `held`.
            prompt: tokens of its prompt.
        """
        key = self._running.pop(slot.index)
        slot.in_use = False
        if self.store.get(key) is not slot:
            self.store.ledger.release(slot.index)
            return  # released meanwhile
        if cached is not None:
            self.rebuilt_tokens += max(0, min(self._lost.pop(key.session_id, 0), prompt - 1) - cached)
        slot.ran(cached=cached, held=held)
        try:
            if held is not None:
                self.store.commit(key, fence)
            else:
                self.store.reset(key)
        except (StaleState, UnknownState):
            self.store.reset(key)

    def fill(self, fence: Fence, copy: StateSnapshot) -> None:
        """Have a copy of another prefix in a slot of its own; waits for the engine. Raises StageError, StateFull."""
        key = StateKey(fence.session_id, KV)
        self.store.allocate(key, {DEVICE: self._slot_bytes}, lambda: self._make(key))
        self.store.advance(fence)
        self.store.restore(key, fence, copy)

    def release(self, session_id: str) -> None:
        """A conversation is over: its slot is the first to be used for another, when it does not run any more."""
        slot = self.store.get(StateKey(session_id, KV))
        self.store.release(session_id)
        if slot is not None and slot.index in self._running:  # its last request runs out, and is still to be counted
            self.store.ledger.reserve(slot.index, {DEVICE: self._slot_bytes})
        self._lost.pop(session_id, None)

    def resting(self) -> dict[int, int]:
        """The slots that have an owner and run nothing, and how many requests each has run."""
        owned = (self.store.get(StateKey(ref.session_id, ref.name)) for ref in self.store.refs())
        return {slot.index: self._turns[slot.index] for slot in owned if slot is not None and not slot.in_use}

    def check_integrity(self, reports: Sequence[SlotReport] = (), *, since: dict[int, int] | None = None) -> list[str]:
        """One sentence for each thing that is not as it must be.

        Args:
            reports: what the engine says of its slots, where it was asked.
            since: `resting` from before it was asked; what has run since is not compared.
        """
        found = self.store.check_integrity()
        owned: dict[int, KvSlot] = {}
        for ref in self.store.refs():
            if (slot := self.store.get(StateKey(ref.session_id, ref.name))) is not None:
                owned[slot.index] = slot
        if sorted([*owned, *self._free]) != list(range(self._slots)):
            found.append(f"{self.store.owner}: its slots are {sorted(owned)} and, free, {sorted(self._free)}")
        if reports and len(reports) != self._slots:
            found.append(f"{self.store.owner}: there are {len(reports)} slots, not {self._slots}")
        for index, turns in (since or {}).items():
            slot = owned.get(index)
            if slot is None or slot.in_use or self._turns[index] != turns or index >= len(reports):
                continue
            tokens = reports[index].tokens
            if tokens != slot.held if slot.held is not None else tokens < slot.length:
                wanted = slot.length if slot.held is None else slot.held
                found.append(f"{self.store.owner}: slot {index} has {tokens} tokens, and {wanted} by the ledger")
        return found
