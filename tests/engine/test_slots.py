"""engine/slots and engine/kv: whose slot it is, and what is counted as being in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.engine.kv import KvSlot
from duplex.engine.line import Line
from duplex.engine.side_door import SlotReport
from duplex.engine.slots import KV, KvSlots
from duplex.errors import StaleState, StateError
from duplex.session.fence import MAIN, Fence
from duplex.state.ref import StateKey

BYTES = 1000


class Engine:
    """Tokens in each slot, as an engine would have them."""

    def __init__(self, slots: int) -> None:
        self.tokens = [0] * slots

    def save(self, slot: int) -> tuple[int, bytes]:
        return self.tokens[slot], b"copy"

    def load(self, slot: int, copy: bytes) -> int:
        self.tokens[slot] = len(copy)
        return len(copy)

    def reports(self) -> list[SlotReport]:
        return [SlotReport(room=100, tokens=tokens, busy=False) for tokens in self.tokens]


def slots(count: int = 2) -> KvSlots:
    return KvSlots(
        owner="think", slots=count, slot_bytes=BYTES, copier=Engine(count), read_s=lambda tokens: 0.004 * tokens
    )


def fence(key: str, epoch: int = 1) -> Fence:
    return Fence(key, 0, MAIN, epoch)


def run(table: KvSlots, key: str, epoch: int = 1, *, cached: int = 0, prompt: int = 10, held: int | None = 20) -> int:
    """A whole request; returns its slot."""
    slot = table.acquire(fence(key, epoch))
    assert slot is not None
    table.give_back(slot, fence(key, epoch), cached=cached, prompt=prompt, held=held)
    return slot.index


def test_a_conversation_keeps_its_slot() -> None:
    table = slots()
    first = run(table, "a")
    assert run(table, "b") != first
    assert run(table, "a", 2) == first
    assert [(ref.session_id, ref.version) for ref in table.store.refs()] == [("a", 2), ("b", 1)]


def test_two_requests_of_one_conversation_never_run_at_once() -> None:
    table = slots()
    slot = table.acquire(fence("a"))
    assert slot is not None
    assert table.acquire(fence("a", 2)) is None
    table.give_back(slot, fence("a"), cached=0, prompt=10, held=None)
    assert table.acquire(fence("a", 2)) is slot


def test_a_late_turn_gets_no_slot() -> None:
    table = slots()
    run(table, "a", 2)
    with pytest.raises(StaleState):
        table.acquire(fence("a"))


def test_of_equal_ones_the_slot_that_was_unused_for_longest_goes() -> None:
    table = slots()
    of_b = [run(table, "a"), run(table, "b"), run(table, "a", 2)][1]
    assert run(table, "c") == of_b
    assert StateKey("b", KV) not in table.store


def test_the_one_that_is_cheap_to_read_again_goes_first() -> None:
    table = slots()
    of_a, _ = run(table, "a", held=20), run(table, "b", held=90)
    run(table, "a", 2, held=21)
    assert run(table, "c") == of_a


def test_a_released_slot_goes_before_another_ones() -> None:
    table = slots()
    _, of_b = run(table, "a"), run(table, "b")
    table.release("b")
    assert run(table, "c") == of_b
    assert table.store.counters["evictions"] == 0


def test_the_slot_of_who_is_gone_is_free_when_it_does_not_run_any_more() -> None:
    table = slots(1)
    slot = table.acquire(fence("a"))
    assert slot is not None
    table.release("a")
    assert table.acquire(fence("b")) is None
    table.give_back(slot, fence("a"), cached=0, prompt=10, held=20)
    assert table.acquire(fence("b")) is not None
    assert table.check_integrity() == []


def test_a_slot_that_runs_out_does_not_keep_an_idle_one_from_being_evicted() -> None:
    table = slots(2)
    of_a = run(table, "a")
    assert table.acquire(fence("b")) is not None
    table.release("b")
    assert table.could_run("c")
    slot = table.acquire(fence("c"))
    assert slot is not None
    assert slot.index == of_a
    assert table.check_integrity() == []


def test_what_was_written_over_is_not_there_any_more() -> None:
    table = slots()
    run(table, "a", held=30)
    run(table, "a", 2, cached=12, held=None)
    (ref,) = table.store.refs("a")
    assert (ref.version, ref.length) == (1, 12)
    run(table, "a", 3, cached=12, held=40)
    assert table.store.ref(StateKey("a", KV)).length == 40


def test_a_turn_that_never_began_to_read_takes_nothing_away() -> None:
    table = slots()
    run(table, "a", held=30)
    slot = table.acquire(fence("a", 2))
    assert slot is not None
    table.give_back(slot, fence("a", 2), cached=None, prompt=0, held=None)
    assert (slot.length, slot.held) == (30, 30)


def test_a_turn_that_ends_after_the_next_has_come_commits_nothing() -> None:
    table = slots()
    run(table, "a", held=30)
    slot = table.acquire(fence("a", 2))
    assert slot is not None
    assert table.acquire(fence("a", 3)) is None
    table.give_back(slot, fence("a", 2), cached=25, prompt=30, held=50)
    assert (slot.length, slot.held) == (25, 50)
    assert table.check_integrity() == []


def test_a_slot_that_runs_is_never_evicted_whatever_its_fence() -> None:
    table = slots(1)
    slot = table.acquire(fence("a"))
    assert slot is not None
    assert table.acquire(fence("a", 2)) is None  # its fence has moved on, and it still runs
    assert table.acquire(fence("b")) is None
    assert StateKey("a", KV) in table.store


def test_what_was_evicted_and_is_read_again_is_counted() -> None:
    table = slots(1)
    run(table, "a", prompt=10, held=30)
    run(table, "b")
    run(table, "a", 2, cached=8, prompt=35, held=60)
    assert table.rebuilt_tokens == 22
    assert table.store.counters["evictions"] == 2
    run(table, "a", 3, cached=59, prompt=70, held=90)
    assert table.rebuilt_tokens == 22


def test_the_ledger_is_compared_with_what_the_engine_has() -> None:
    table, engine = slots(), Engine(2)
    index = run(table, "a", held=30)
    since = table.resting()
    engine.tokens[index] = 30
    assert table.check_integrity(engine.reports(), since=since) == []
    engine.tokens[index] = 29
    assert table.check_integrity(engine.reports(), since=since) == [
        f"think: slot {index} has 29 tokens, and 30 by the ledger"
    ]
    assert table.check_integrity(engine.reports()[:1], since={}) == ["think: there are 1 slots, not 2"]
    run(table, "a", 2, cached=29, held=None)
    assert table.check_integrity(engine.reports(), since=since) == [], "it has run since it was asked"
    engine.tokens[index] = 28
    assert len(table.check_integrity(engine.reports(), since=table.resting())) == 1
    table._free.append(index)
    assert any("its slots are" in found for found in table.check_integrity())


def test_a_copy_is_no_copy_of_something_else() -> None:
    table = slots()
    slot = table.acquire(fence("a"))
    assert isinstance(slot, KvSlot)
    with pytest.raises(StateError, match="no copy"):
        slot.restore(b"bytes")
    slot.ran(cached=0, held=None)
    with pytest.raises(StateError, match="nobody knows"):
        slot.commit()


@given(st.lists(st.tuples(st.sampled_from(["run", "end", "break", "release"]), st.sampled_from("abcde")), max_size=60))
def test_slots_are_never_shared(steps: list[tuple[str, str]]) -> None:
    table = slots(3)
    epochs = dict.fromkeys("abcde", 0)
    running: list[tuple[KvSlot, Fence]] = []
    for step, key in steps:
        if step == "run":
            epochs[key] += 1
            slot = table.acquire(fence(key, epochs[key]))
            indexes = {one.index for one, _ in running}
            if slot is None:
                assert key in {of.session_id for _, of in running} or len(running) == 3
            else:
                assert slot.index not in indexes
                running.append((slot, fence(key, epochs[key])))
        elif step == "release":
            table.release(key)
        elif running:
            slot, of = running.pop(0)
            held = 20 if step == "end" else None
            table.give_back(slot, of, cached=3, prompt=10, held=held)
        assert table.busy == len(running)
        assert table.check_integrity() == []


def test_who_has_waited_comes_before_who_is_awake() -> None:
    table = slots(1)
    line = Line(could_run=table.could_run)
    slot = table.acquire(fence("a"))
    assert slot is not None
    line.join("first", "b")
    line.join("second", "a")
    table.give_back(slot, fence("a"), cached=0, prompt=10, held=20)
    assert line.is_due("first")
    assert not line.is_due("second")
    assert table.acquire(fence("b")) is not None
    line.leave("first")
    assert line.is_due("second")


def test_who_reads_ahead_comes_after_who_is_to_answer() -> None:
    table = slots(1)
    line = Line(could_run=table.could_run)
    line.join("ahead", "a", later=True)
    line.join("answer", "b")
    assert not line.is_due("ahead")
    assert line.is_due("answer")
    assert table.acquire(fence("b")) is not None
    line.leave("answer")
    assert line.is_due("ahead")
    line.leave("ahead")
    line.join("answer", "c")
    assert line.is_due("answer")


def test_who_waits_for_a_busy_slot_of_its_own_holds_nobody_up() -> None:
    table = slots(2)
    line = Line(could_run=table.could_run)
    assert table.acquire(fence("a")) is not None
    line.join("first", "a")
    line.join("second", "b")
    assert line.is_due("second")
    assert table.acquire(fence("b")) is not None
    line.join("third", "c")
    assert line.is_due("third")
