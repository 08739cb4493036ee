"""All state of one owner: allocated, written in two phases, counted, evicted, proven. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from duplex.errors import StaleState, StateError, StateFull, UnknownState
from duplex.session.fence import Fence
from duplex.state.eviction import GreedyDual
from duplex.state.ledger import Ledger, by_device
from duplex.state.ref import StateKey, StateRef
from duplex.state.value import StateValue

V = TypeVar("V", bound=StateValue)

NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot:
    """What was committed of one piece of state, outside its store."""

    ref: StateRef
    content: object


@dataclass(slots=True, kw_only=True)
class _Entry(Generic[V]):
    """`fence`: of the writes that are staged; None where none are."""

    value: V
    version: int = 0
    fence: Fence | None = None


class StateStore(Generic[V]):
    """The state that one owner holds for its sessions.

    The live fence of a lane only moves forward (`advance`): what was staged under an earlier one is discarded then, and
    nothing can be staged or committed under it any more. A piece with staged writes is busy, and is not evicted; nor is
    what cannot be made again. Where neither room nor anything to evict is left, who asks is refused (`StateFull`), and
    nothing has changed.

    No method waits. Callers hold the lock that they guard it with, during `stage`'s writes as well where those change
    what `storages` says.

    Args:
        owner: its name in every ref.
        budgets: most bytes by device.
    """

    def __init__(self, *, owner: str, budgets: Mapping[str, int]) -> None:
        self.owner = owner
        self.ledger = Ledger(budgets=budgets)
        self.counters: Counter[str] = Counter()
        """``evictions``; ``refusals``: for want of room; ``stale``: stages and commits under a fence that had gone."""
        self._entries: dict[StateKey, _Entry[V]] = {}
        self._live: dict[tuple[str, str], Fence] = {}
        self._policy = GreedyDual()

    def __contains__(self, key: StateKey) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: StateKey) -> V | None:
        """The value itself, for its owner to look at."""
        entry = self._entries.get(key)
        return entry.value if entry is not None else None

    def busy(self, key: StateKey) -> bool:
        """Whether it has staged writes."""
        entry = self._entries.get(key)
        return entry is not None and entry.fence is not None

    # The verbs --------------------------------------------------------------------------------

    def allocate(self, key: StateKey, claim: Mapping[str, int], make: Callable[[], V]) -> V:
        """A new, empty piece of state.

        Args:
            claim: bytes by device that it will take at once; reserved before it is made.
            make: makes it, with no more than that.

        Raises:
            StateFull: there is no room, and nothing may be evicted; nothing has changed.
            StateError: there is one of this key.
        """
        if key in self._entries:
            raise StateError(f"{self.owner} has {key.name} of {key.session_id} already")
        self._reserve(key, claim)
        value = None
        try:
            value = make()
            self.ledger.charge(key, value.storages())
        except BaseException:
            self.ledger.release(key)
            if value is not None:
                value.close()
            raise
        self._entries[key] = _Entry(value=value)
        self._used(key)
        return value

    def advance(self, fence: Fence) -> None:
        """This fence is the live one of its lane from now on, and its session's earlier writes there are void.

        Raises StaleState where a later one is live; nothing has changed then.
        """
        live = self._live.get((fence.session_id, fence.lane))
        if live is not None and live.outdates(fence):
            raise self._stale(fence)
        self._live[fence.session_id, fence.lane] = fence
        for key, entry in self._entries.items():
            if entry.fence is not None and fence.outdates(entry.fence):
                self._discard(key, entry)

    def stage(self, key: StateKey, fence: Fence, claim: Mapping[str, int] = NOTHING) -> V:
        """Begin or go on to write under the live fence; returns what to write to.

        Args:
            claim: bytes by device that the writes will take beyond what is held.

        Raises:
            StaleState: the fence is not live; nothing has changed.
            StateFull: there is no room, and nothing may be evicted; nothing has changed.
            UnknownState: there is no such state.
            StateError: it is being written under the live fence of another lane.
        """
        entry = self._entry(key)
        self._check_live(fence)
        if entry.fence not in (None, fence):
            raise StateError(f"{key.name} of {key.session_id} is being written under {entry.fence}")
        self._reserve(key, claim)
        if entry.fence is None:
            entry.value.stage()
            entry.fence = fence
        return entry.value

    def commit(self, key: StateKey, fence: Fence) -> StateRef:
        """What was staged under `fence` shows from now on.

        Raises:
            StaleState: the fence is not live, or nothing is staged under it; nothing has changed.
            StateFull: the writes took more than they had claimed, and there is no room: they are discarded.
            UnknownState: there is no such state.
        """
        entry = self._entry(key)
        self._check_live(fence)
        if entry.fence != fence:
            raise self._stale(fence)
        try:
            self.ledger.charge(key, entry.value.storages())
        except StateFull:
            self._discard(key, entry)
            raise
        entry.value.commit()
        entry.fence = None
        entry.version += 1
        self.ledger.charge(key, entry.value.storages())  # what the last version had for itself is free now
        self._used(key)
        return self.ref(key)

    def view(self, key: StateKey) -> object:
        """What is committed. Raises UnknownState."""
        entry = self._entry(key)
        self._used(key)
        return entry.value.view()

    def reset(self, key: StateKey) -> None:
        """Back to the last commit; nothing where nothing is staged. Raises UnknownState."""
        self._discard(key, self._entry(key))

    def evict(self, key: StateKey) -> None:
        """Let go of a piece that can be made again.

        Raises:
            UnknownState: there is no such state.
            StateError: it is busy, or cannot be made again; nothing has changed.
        """
        entry = self._entry(key)
        if not self._may_go(entry):
            raise StateError(f"{key.name} of {key.session_id} is busy, or cannot be made again")
        self.counters["evictions"] += 1
        self._drop(key)

    def snapshot(self, key: StateKey) -> StateSnapshot:
        """What is committed, to be kept elsewhere. Raises UnknownState."""
        return StateSnapshot(ref=self.ref(key), content=self._entry(key).value.snapshot())

    def restore(
        self, key: StateKey, fence: Fence, snapshot: StateSnapshot, claim: Mapping[str, int] = NOTHING
    ) -> StateRef:
        """Make a piece what another of its kind was; its version goes on. `stage` and `commit` in one.

        Raises what those do, and StateError where it is busy or of another kind; nothing has changed then.
        """
        entry = self._entry(key)
        if entry.fence is not None or entry.value.kind != snapshot.ref.kind:
            raise StateError(f"{key.name} of {key.session_id} is busy, or no {snapshot.ref.kind}")
        value = self.stage(key, fence, claim)
        try:
            value.restore(snapshot.content)
        except BaseException:
            self.reset(key)
            raise
        return self.commit(key, fence)

    def release(self, session_id: str) -> None:
        """A session is over: all of its state goes, staged or not. Twice is fine."""
        for key in [key for key in self._entries if key.session_id == session_id]:
            self._drop(key)
        for lane in [lane for lane in self._live if lane[0] == session_id]:
            del self._live[lane]

    # What there is ----------------------------------------------------------------------------

    def ref(self, key: StateKey) -> StateRef:
        """Its name and size now. Raises UnknownState."""
        entry = self._entry(key)
        return StateRef(
            owner=self.owner,
            session_id=key.session_id,
            name=key.name,
            kind=entry.value.kind,
            version=entry.version,
            length=entry.value.length,
            nbytes=self.ledger.held(key),
            rebuild_s=entry.value.rebuild_s,
        )

    def refs(self, session_id: str | None = None) -> tuple[StateRef, ...]:
        """Of one session, or of all."""
        return tuple(self.ref(key) for key in self._entries if session_id in (None, key.session_id))

    def check_integrity(self) -> list[str]:
        """One sentence for each difference between ledger and reality; empty where they are proven equal."""
        found = self.ledger.check_integrity()
        for key, entry in self._entries.items():
            if self.ledger.held(key) != by_device(entry.value.storages()) and entry.fence is None:
                found.append(f"{key.name} of {key.session_id} holds other storages than the ledger says")
            if entry.fence is not None and entry.fence != self._live.get((entry.fence.session_id, entry.fence.lane)):
                found.append(f"{key.name} of {key.session_id} has writes under a fence that is not live")
            found += [f"{key.name} of {key.session_id}: {finding}" for finding in entry.value.findings()]
        return [f"{self.owner}: {finding}" for finding in found]

    # ------------------------------------------------------------------------------------------

    def _entry(self, key: StateKey) -> _Entry[V]:
        entry = self._entries.get(key)
        if entry is None:
            raise UnknownState(f"{self.owner} has no {key.name} of {key.session_id}: never made, evicted or released")
        return entry

    def _check_live(self, fence: Fence) -> None:
        if self._live.get((fence.session_id, fence.lane)) != fence:
            raise self._stale(fence)

    def _stale(self, fence: Fence) -> StaleState:
        self.counters["stale"] += 1
        return StaleState(f"{fence} is not the live fence of its lane, or has staged nothing here")

    def _reserve(self, key: StateKey, claim: Mapping[str, int]) -> None:
        """Promise `key` so much, evicting where that is needed, and only where it helps."""
        while missing := self.ledger.short(claim):
            chosen = self._choose(key, missing)
            if chosen is None:
                self.counters["refusals"] += 1
                device, count = next(iter(missing.items()))
                raise StateFull(
                    f"{self.owner} is {count} bytes of {device} short for {key.name}, and whatever else it holds is "
                    "busy or cannot be made again: try again later, or give it a larger budget"
                )
            self.evict(chosen)
        self.ledger.reserve(key, claim)

    def _choose(self, key: StateKey, missing: Mapping[str, int]) -> StateKey | None:
        """Who is to go next; None where all that may go would not be enough, so that nobody goes in vain."""
        may = [other for other, entry in self._entries.items() if other != key and self._may_go(entry)]
        free = {identity: one for identity, one in self.ledger.freeable(may).items() if one.device in missing}
        gained = by_device(free.values())
        if any(gained.get(device, 0) < count for device, count in missing.items()):
            return None
        return self._policy.choose([other for other in may if self.ledger.holds(other, free)])

    def _may_go(self, entry: _Entry[V]) -> bool:
        return entry.fence is None and not entry.value.in_use and entry.value.rebuild_s is not None

    def _used(self, key: StateKey) -> None:
        value = self._entries[key].value
        if (cost_s := value.rebuild_s) is not None:
            self._policy.used(key, cost_s=cost_s, nbytes=sum(self.ledger.held(key).values()))

    def _discard(self, key: StateKey, entry: _Entry[V]) -> None:
        if entry.fence is None:
            return
        entry.fence = None
        entry.value.discard()
        self.ledger.charge(key, entry.value.storages())
        self._used(key)

    def _drop(self, key: StateKey) -> None:
        entry = self._entries.pop(key)
        self._policy.forget(key)
        self.ledger.release(key)
        entry.value.close()
