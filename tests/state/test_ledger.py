"""state/ledger and state/eviction: each storage once, budgets of stone, and who goes first."""

from __future__ import annotations

import pytest

from duplex.errors import StateError, StateFull
from duplex.state.eviction import GreedyDual
from duplex.state.ledger import Ledger, Storage
from duplex.state.ref import StateKey

A, B, C = (StateKey(name, "x") for name in "abc")


def test_a_storage_counts_once_however_many_share_it() -> None:
    ledger = Ledger(budgets={"host": 100})
    shared = Storage("shared", "host", 60)
    ledger.charge(A, [shared, Storage("own", "host", 10)])
    ledger.charge(B, [shared])
    assert ledger.taken("host") == 70
    assert (ledger.held(A), ledger.held(B)) == ({"host": 70}, {"host": 60})
    ledger.release(A)
    assert ledger.taken("host") == 60
    ledger.release(B)
    ledger.release(B)
    assert ledger.taken("host") == 0
    assert ledger.check_integrity() == []


def test_no_budget_is_passed_and_a_refusal_changes_nothing() -> None:
    ledger = Ledger(budgets={"host": 100, "gpu": 10})
    ledger.reserve(A, {"host": 90})
    with pytest.raises(StateFull, match="20 bytes are short on host"):
        ledger.reserve(B, {"gpu": 5, "host": 30})
    with pytest.raises(StateFull, match="1 bytes are short on gpu"):
        ledger.charge(B, [Storage("b", "gpu", 11)])
    with pytest.raises(StateFull, match="nowhere"):
        ledger.reserve(B, {"nowhere": 1})
    assert (ledger.taken("host"), ledger.taken("gpu")) == (90, 0)
    assert ledger.check_integrity() == []


def test_what_is_charged_takes_the_place_of_what_was_reserved() -> None:
    ledger = Ledger(budgets={"host": 100})
    ledger.reserve(A, {"host": 60})
    ledger.reserve(A, {"host": 40})
    ledger.charge(A, [Storage("a", "host", 70)])
    assert ledger.taken("host") == 70
    ledger.charge(A, [Storage("a", "host", 30)])
    assert ledger.taken("host") == 30


def test_a_negative_claim_and_two_sizes_of_one_storage_are_bugs() -> None:
    ledger = Ledger(budgets={"host": 100})
    with pytest.raises(StateError):
        ledger.reserve(A, {"host": -1})
    ledger.charge(A, [Storage("a", "host", 10)])
    with pytest.raises(StateError, match="do not agree"):
        ledger.charge(B, [Storage("a", "host", 20)])
    assert ledger.taken("host") == 10


def test_what_somebody_else_shares_is_not_freed() -> None:
    ledger = Ledger(budgets={"host": 100})
    ledger.charge(A, [Storage("shared", "host", 10), Storage("a", "host", 1)])
    ledger.charge(B, [Storage("shared", "host", 10)])
    assert set(ledger.freeable([A])) == {"a"}
    assert set(ledger.freeable([A, B])) == {"a", "shared"}


def test_books_that_are_wrong_are_found_out() -> None:
    ledger = Ledger(budgets={"host": 100})
    ledger.charge(A, [Storage("a", "host", 10)])
    ledger._taken["host"] = 9
    assert ledger.check_integrity() == ["the ledger has 9 bytes on host, its storages have 10"]
    ledger._taken["host"] = 10
    ledger.budgets["host"] = 5
    assert ledger.check_integrity() == ["10 bytes on host are more than its budget, 5"]
    ledger.budgets["host"] = 10
    ledger._sharers["a"].add(B)
    assert "who holds what" in ledger.check_integrity()[0]


def test_of_equals_the_one_unused_for_longest_goes() -> None:
    policy = GreedyDual()
    for key in (A, B, C, A):
        policy.used(key, cost_s=1.0, nbytes=10)
    assert policy.choose([A, B, C]) == B
    assert policy.choose([A, C]) == C
    assert policy.choose([]) is None


def test_the_cheap_one_goes_before_the_old_one() -> None:
    policy = GreedyDual()
    policy.used(A, cost_s=5.0, nbytes=10)
    policy.used(B, cost_s=1.0, nbytes=10)
    assert policy.choose([A, B]) == B


def test_a_dear_one_that_is_never_used_grows_old() -> None:
    policy = GreedyDual()
    policy.used(A, cost_s=3.0, nbytes=1)
    rounds = 0
    while True:
        policy.used(B, cost_s=1.0, nbytes=1)
        rounds += 1
        if (gone := policy.choose([A, B])) == A:
            break
        assert gone == B
        policy.forget(B)
    assert rounds == 3


def test_what_is_gone_is_not_chosen() -> None:
    policy = GreedyDual()
    policy.used(A, cost_s=0.0, nbytes=1)
    policy.forget(A)
    assert policy.choose([A]) is None
