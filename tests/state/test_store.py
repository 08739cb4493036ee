"""state/store: the verbs, one by one, and the sentence that a refusal is."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from duplex.errors import StaleState, StateError, StateFull
from duplex.session.fence import MAIN, Fence
from duplex.state.kind import StateKind
from duplex.state.ref import StateKey
from duplex.state.store import StateStore
from tests.state.ring import PAGE, PAGE_BYTES, RingValue

A, B, C = (StateKey(name, "ring") for name in "abc")
ONE = {"host": PAGE_BYTES}


def fence(session: str, epoch: int = 1) -> Fence:
    return Fence(session, 0, MAIN, epoch)


def store(pages: int = 4) -> StateStore[RingValue]:
    return StateStore(owner="think", budgets={"host": pages * PAGE_BYTES})


def fill(here: StateStore[RingValue], key: StateKey, *values: int, cost_s: float | None = 1.0) -> RingValue:
    """One committed page for each value."""
    value = here.allocate(key, {}, lambda: RingValue(cost_s=cost_s))
    here.advance(fence(key.session_id))
    here.stage(key, fence(key.session_id), {"host": len(values) * PAGE_BYTES})
    for one in values:
        value.write(np.full(PAGE, one))
    here.commit(key, fence(key.session_id))
    return value


def test_a_ref_is_small_and_travels() -> None:
    here = store()
    fill(here, A, 1, 2)
    ref = here.ref(A)
    assert (ref.owner, ref.kind, ref.version, ref.length) == ("think", StateKind.RING, 1, 2 * PAGE)
    assert ref.nbytes == {"host": 2 * PAGE_BYTES}
    shown = msgspec.json.decode(msgspec.json.encode(ref))
    assert (shown["kind"], shown["nbytes"]) == ("ring", {"host": 2 * PAGE_BYTES})


def test_the_fence_moves_first_and_its_writes_are_void() -> None:
    here = store()
    value = fill(here, A, 1)
    here.stage(A, fence("a"), ONE).write(np.full(PAGE, 2))
    here.advance(fence("a", 2))
    assert value.view() == [1] * PAGE
    assert not here.busy(A)
    with pytest.raises(StaleState):
        here.commit(A, fence("a"))
    with pytest.raises(StaleState):
        here.stage(A, fence("a"))
    assert (here.ref(A).version, here.counters["stale"]) == (1, 2)
    assert here.ledger.taken("host") == PAGE_BYTES


def test_an_interruption_in_one_lane_leaves_writes_of_another() -> None:
    here = store()
    fill(here, A, 1)
    here.stage(A, fence("a"), ONE)
    here.advance(Fence("a", 0, "input", 7))
    assert here.busy(A)
    assert here.commit(A, fence("a")).version == 2


def test_the_one_that_is_cheap_to_make_again_goes() -> None:
    here = store(pages=3)
    dear, cheap = fill(here, A, 1, cost_s=9.0), fill(here, B, 2, cost_s=0.1)
    fill(here, C, 3, 4)
    assert (dear.closed, cheap.closed) == (False, True)
    assert here.counters["evictions"] == 1


def test_nobody_goes_in_vain() -> None:
    here = store(pages=3)
    fill(here, A, 1)
    fill(here, B, 2, cost_s=None)
    with pytest.raises(StateFull):
        here.allocate(C, {"host": 3 * PAGE_BYTES}, RingValue)
    assert A in here
    assert here.counters["evictions"] == 0


def test_what_cannot_be_made_again_or_is_busy_stays_and_who_asks_is_told() -> None:
    here = store(pages=3)
    fill(here, A, 1, cost_s=None)
    fill(here, B, 2).in_use = True
    fill(here, C, 3)
    here.stage(C, fence("c"))
    with pytest.raises(StateFull, match=r"think is 16 bytes of host short for ring, .* or give it a larger budget"):
        here.allocate(StateKey("d", "ring"), ONE, RingValue)
    assert len(here) == 3
    for key in (A, B, C):
        with pytest.raises(StateError, match="busy, or cannot be made again"):
            here.evict(key)


def test_writes_that_took_more_than_they_claimed_are_discarded_where_there_is_no_room() -> None:
    here = store(pages=2)
    value = fill(here, A, 1)
    here.stage(A, fence("a"), ONE)
    for number in (2, 3):
        value.write(np.full(PAGE, number))
    with pytest.raises(StateFull):
        here.commit(A, fence("a"))
    assert value.view() == [1] * PAGE
    assert not here.busy(A)
    assert here.ledger.taken("host") == PAGE_BYTES
    assert here.check_integrity() == []


def test_a_snapshot_is_restored_into_another() -> None:
    here = store()
    fill(here, A, 1, 2)
    fill(here, B, 3)
    taken = here.snapshot(A)
    here.release("a")
    ref = here.restore(B, fence("b"), taken, {"host": 2 * PAGE_BYTES})
    assert here.view(B) == [1] * PAGE + [2] * PAGE
    assert (ref.version, here.ledger.taken("host")) == (2, 2 * PAGE_BYTES)


def test_a_value_that_lies_about_its_memory_is_found_out() -> None:
    here = store()
    value = fill(here, A, 1, 2)
    value._committed = value._committed[:1]
    assert here.check_integrity() == ["think: ring of a holds other storages than the ledger says"]
    value._committed[0].samples = np.zeros(PAGE + 1, np.int16)
    assert "think: ring of a: a page has another size" in here.check_integrity()


def test_after_its_release_nothing_of_a_session_is_left() -> None:
    here = store()
    value = fill(here, A, 1)
    fill(here, B, 2)
    here.stage(A, fence("a"), ONE)
    here.release("a")
    here.release("a")
    assert value.closed
    assert here.ledger.taken("host") == PAGE_BYTES
    with pytest.raises(StaleState):
        here.stage(B, fence("a"))
