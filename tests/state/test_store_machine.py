"""state/store against a model of it: whatever is done in whatever order, ledger = reality, and no budget is passed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from duplex.errors import StaleState, StateError, StateFull, UnknownState
from duplex.session.fence import MAIN, Fence
from duplex.state.ref import StateKey
from duplex.state.store import StateSnapshot, StateStore
from tests.state.ring import PAGE, PAGE_BYTES, RingValue

SESSIONS = ("a", "b", "c")
NAMES = ("ring", "tail")
LANES = (MAIN, "side")
DEVICES = ("host", "gpu")
BUDGET = {"host": 7 * PAGE_BYTES, "gpu": 4 * PAGE_BYTES}

keys = st.builds(StateKey, st.sampled_from(SESSIONS), st.sampled_from(NAMES))
lanes = st.sampled_from(LANES)
pages = st.integers(0, 3)


@dataclass
class Known:
    """What the model knows of one piece: `fence` and `staged` are None where nothing is staged."""

    value: RingValue
    shown: list[int] = field(default_factory=list)
    staged: list[int] | None = None
    fence: Fence | None = None
    version: int = 0

    def discard(self) -> None:
        self.staged = self.fence = None

    def may_go(self) -> bool:
        return self.fence is None and not self.value.in_use and self.value.cost_s is not None


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store: StateStore[RingValue] = StateStore(owner="test", budgets=BUDGET)
        self.known: dict[StateKey, Known] = {}
        self.live: dict[tuple[str, str], Fence] = {}
        self.promised: dict[StateKey, dict[str, int]] = {}
        self.number = 0
        self.evicted = 0
        self.snapshots: list[tuple[StateSnapshot, list[int]]] = []

    # What the model reckons -------------------------------------------------------------------

    def fence(self, session: str, lane: str) -> Fence:
        return self.live.get((session, lane), Fence(session, 0, lane, 0))

    def bytes_of(self, device: str, known: list[Known]) -> int:
        return PAGE_BYTES * len({page for one in known if one.value.device == device for page in one.value.kept()})

    def taken(self, device: str) -> int:
        promised = sum(claim.get(device, 0) for claim in self.promised.values())
        return self.bytes_of(device, list(self.known.values())) + promised

    def bytes_really(self, device: str) -> int:
        """What is staged has been written already."""
        return PAGE_BYTES * len(
            {page for one in self.known.values() if one.value.device == device for page in one.value.pages()}
        )

    def fits(self, key: StateKey, claim: dict[str, int]) -> bool:
        all_of_them = list(self.known.values())
        stay = [one for other, one in self.known.items() if other == key or not one.may_go()]
        for device, most in claim.items():
            freed = self.bytes_of(device, all_of_them) - self.bytes_of(device, stay)
            if most and self.taken(device) - freed + most > BUDGET[device]:
                return False
        return True

    def settle_evictions(self) -> None:
        """Only what may go has gone, and it was told that it is over."""
        for key in [key for key in self.known if key not in self.store]:
            gone = self.known.pop(key)
            assert gone.may_go()
            assert gone.value.closed
            self.evicted += 1

    def reckoned(self) -> tuple[object, ...]:
        return ({key: (one.version, one.staged) for key, one in self.known.items()}, self.store.refs())

    def samples(self, count: int) -> list[list[int]]:
        self.number += count
        return [[self.number - back] * PAGE for back in range(count)]

    # Rules ------------------------------------------------------------------------------------

    @rule(key=keys, device=st.sampled_from(DEVICES), cost=st.sampled_from([None, 0.0, 1.0, 5.0]), claim=pages)
    def allocate(self, key: StateKey, device: str, cost: float | None, claim: int) -> None:
        before = self.reckoned()
        wanted = {device: claim * PAGE_BYTES}
        if key in self.known:
            with pytest.raises(StateError):
                self.store.allocate(key, wanted, RingValue)
            assert self.reckoned() == before
            return
        fits = self.fits(key, wanted)
        try:
            made = self.store.allocate(key, wanted, lambda: RingValue(device=device, cost_s=cost))
        except StateFull:
            assert not fits
            assert self.reckoned() == before
            return
        assert fits
        self.settle_evictions()
        self.known[key] = Known(made)

    @rule(key=keys)
    def fail_to_make(self, key: StateKey) -> None:
        def make() -> RingValue:
            raise ValueError("it cannot be made")

        if key not in self.known and self.fits(key, {"host": PAGE_BYTES}):
            with pytest.raises(ValueError, match="cannot be made"):
                self.store.allocate(key, {"host": PAGE_BYTES}, make)
            self.settle_evictions()

    @rule(key=keys, of=keys)
    def alias(self, key: StateKey, of: StateKey) -> None:
        """A fork costs nothing, whatever it shares."""
        if of not in self.known or key in self.known:
            return
        source = self.known[of]
        before = [self.store.ledger.taken(device) for device in DEVICES]
        made = self.store.allocate(key, {}, source.value.fork)
        assert [self.store.ledger.taken(device) for device in DEVICES] == before
        self.known[key] = Known(made, shown=list(source.shown))

    @rule(session=st.sampled_from(SESSIONS), lane=lanes, generation=st.booleans())
    def advance(self, session: str, lane: str, generation: bool) -> None:
        fence = self.fence(session, lane).next()
        if generation:
            fence = fence._replace(generation=fence.generation + 1, epoch=0)
        self.store.advance(fence)
        self.live[session, lane] = fence
        for key, known in self.known.items():
            if known.fence is not None and known.fence[::2] == fence[::2] and known.fence != fence:
                known.discard()
                self.promised.pop(key, None)

    @rule(session=st.sampled_from(SESSIONS), lane=lanes)
    def go_back(self, session: str, lane: str) -> None:
        fence = self.fence(session, lane)
        if fence.epoch and (session, lane) in self.live:
            with pytest.raises(StaleState):
                self.store.advance(fence._replace(epoch=fence.epoch - 1))

    @rule(key=keys, lane=lanes, claim=pages, stale=st.booleans())
    def stage(self, key: StateKey, lane: str, claim: int, stale: bool) -> None:
        known = self.known.get(key)
        fence = self.fence(key.session_id, lane)
        before = self.reckoned()
        device = known.value.device if known is not None else "host"
        wanted = {device: claim * PAGE_BYTES}
        offered = fence._replace(epoch=fence.epoch - 1) if stale else fence
        fits = self.fits(key, wanted)
        try:
            value = self.store.stage(key, offered, wanted)
        except UnknownState:
            assert known is None
        except StaleState:
            assert stale or (key.session_id, lane) not in self.live
        except StateFull:
            assert not fits
        except StateError:
            assert known is not None
            assert known.fence not in (None, fence)
        else:
            assert known is not None
            assert not stale
            assert fits
            self.settle_evictions()
            promised = self.promised.setdefault(key, {})
            if known.staged is None:
                known.staged, known.fence = list(known.shown), fence
            for samples in self.samples(claim):
                value.write(np.array(samples, np.int16))
                known.staged = [*known.staged, *samples][-PAGE * value.most :]
            promised[device] = promised.get(device, 0) + claim * PAGE_BYTES
            return
        assert self.reckoned() == before

    @rule(key=keys, lane=lanes, stale=st.booleans())
    def commit(self, key: StateKey, lane: str, stale: bool) -> None:
        known = self.known.get(key)
        fence = self.fence(key.session_id, lane)
        before = self.reckoned()
        offered = fence._replace(epoch=fence.epoch - 1) if stale else fence
        try:
            ref = self.store.commit(key, offered)
        except UnknownState:
            assert known is None
        except StaleState:
            assert known is not None
            assert stale or known.fence != fence
        else:
            assert known is not None
            assert known.fence == offered == fence
            assert known.staged is not None
            known.shown, known.version = known.staged, known.version + 1
            known.discard()
            self.promised.pop(key, None)
            assert (ref.version, ref.length) == (known.version, len(known.shown))
            return
        assert self.reckoned() == before

    @rule(key=keys)
    def reset(self, key: StateKey) -> None:
        known = self.known.get(key)
        if known is None:
            with pytest.raises(UnknownState):
                self.store.reset(key)
            return
        self.store.reset(key)
        known.discard()
        self.promised.pop(key, None)

    @rule(key=keys)
    def evict(self, key: StateKey) -> None:
        known = self.known.get(key)
        if known is None or not known.may_go():
            with pytest.raises((UnknownState, StateError)):
                self.store.evict(key)
            return
        self.store.evict(key)
        self.settle_evictions()

    @rule(key=keys, in_use=st.booleans())
    def use(self, key: StateKey, in_use: bool) -> None:
        if key in self.known:
            self.known[key].value.in_use = in_use

    @rule(key=keys)
    def snapshot(self, key: StateKey) -> None:
        if key in self.known:
            self.snapshots.append((self.store.snapshot(key), list(self.known[key].shown)))

    @precondition(lambda self: self.snapshots)
    @rule(key=keys, lane=lanes, data=st.data())
    def restore(self, key: StateKey, lane: str, data: st.DataObject) -> None:
        known = self.known.get(key)
        taken, shown = data.draw(st.sampled_from(self.snapshots))
        if known is None or (key.session_id, lane) not in self.live:
            return
        before = self.reckoned()
        claim = {known.value.device: len(shown) * 2}
        fits = self.fits(key, claim)
        try:
            ref = self.store.restore(key, self.fence(key.session_id, lane), taken, claim)
        except StateFull:
            assert not fits
            assert self.reckoned() == before
        except StateError:
            assert known.fence is not None
            assert self.reckoned() == before
        else:
            assert fits
            assert known.fence is None
            self.settle_evictions()
            known.shown, known.version = list(shown), known.version + 1
            assert ref.version == known.version

    @rule(session=st.sampled_from(SESSIONS))
    def release(self, session: str) -> None:
        self.store.release(session)
        for key in [key for key in self.known if key.session_id == session]:
            assert self.known.pop(key).value.closed
            self.promised.pop(key, None)
        for lane in LANES:
            self.live.pop((session, lane), None)

    # What holds -------------------------------------------------------------------------------

    @invariant()
    def the_ledger_is_reality(self) -> None:
        assert self.store.check_integrity() == []
        for device in DEVICES:
            assert self.store.ledger.taken(device) <= BUDGET[device]
            assert self.store.ledger.taken(device) == self.taken(device)
            assert self.bytes_really(device) <= BUDGET[device]

    @invariant()
    def only_what_is_committed_shows(self) -> None:
        assert {ref.session_id + ref.name for ref in self.store.refs()} == {"".join(key) for key in self.known}
        for key, known in self.known.items():
            value = self.store.get(key)
            assert value is known.value
            assert value.view() == known.shown
            assert self.store.ref(key).version == known.version
            assert self.store.busy(key) == (known.fence is not None)

    @invariant()
    def evictions_are_counted(self) -> None:
        assert self.store.counters["evictions"] == self.evicted


StoreMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestStore = StoreMachine.TestCase
