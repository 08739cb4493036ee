"""The lease alone: its table, its tokens, its owners."""

from __future__ import annotations

import pytest

from duplex.errors import ClientError, StateError
from duplex.session.lease import LEASE_TABLE, Lease, LeaseInput, LeaseState
from tests.session.frozen import frozen


def refused(lease: Lease, token: str) -> str:
    """The code of the refusal; the lease must be as it was."""
    before = frozen(lease)
    with pytest.raises(ClientError) as caught:
        lease.attach(token, following="never")
    assert frozen(lease) == before
    return caught.value.code


def test_a_token_is_good_until_its_bearer_has_the_next_one() -> None:
    lease = Lease(token="one", grace_s=10)
    assert lease.attach("one", following="two") == 1
    assert lease.attach("one", following="three") == 2, "the word that told of `two` may have been lost"
    assert refused(lease, "two") == "resume_token_invalid", "nobody can have been told of it"
    lease.confirm(1)
    assert lease.attach("one", following="four") == 3, "only the owner's word counts"
    lease.confirm(3)
    assert refused(lease, "one") == "resume_token_invalid"
    assert lease.attach("four", following="five") == 4


@pytest.mark.parametrize("token", ["", "forged", "one ", "\udcff", "x" * 10_000])
def test_forged_tokens_change_nothing(token: str) -> None:
    assert refused(Lease(token="one", grace_s=10), token) == "resume_token_invalid"


def test_only_the_owner_can_lose_a_session() -> None:
    lease = Lease(token="one", grace_s=10)
    lease.attach("one", following="two")
    assert not lease.detach(0, 5.0)
    assert lease.owns(1)
    assert lease.detach(1, 5.0)
    assert (lease.state, lease.deadline) == (LeaseState.DETACHED, 15.0)
    assert not lease.detach(1, 9.0), "it has lost it already, and the wait does not begin anew"
    assert lease.deadline == 15.0


def test_the_wait_ends() -> None:
    lease = Lease(token="one", grace_s=10)
    assert not lease.wake(1000.0), "it is held"
    lease.detach(0, 5.0)
    assert not lease.wake(14.9)
    assert lease.wake(15.0)
    assert refused(lease, "one") == "session_closed"
    lease.close()


def test_resuming_stops_the_wait() -> None:
    lease = Lease(token="one", grace_s=10)
    lease.detach(0, 5.0)
    lease.attach("one", following="two")
    assert lease.deadline is None
    assert not lease.wake(1000.0)


def test_a_session_without_grace_cannot_be_resumed() -> None:
    assert refused(Lease(token="one", grace_s=0), "one") == "not_resumable"


def test_no_secret_is_kept() -> None:
    lease = Lease(token="swordfish", grace_s=10)
    lease.attach("swordfish", following="sesame")
    assert "swordfish" not in repr(frozen(lease))
    assert "sesame" not in repr(frozen(lease))


@pytest.mark.parametrize("state", LeaseState)
@pytest.mark.parametrize("what", LeaseInput)
def test_the_table_is_all_there_is(state: LeaseState, what: LeaseInput) -> None:
    lease = Lease(token="one", grace_s=10)
    lease.state = state
    if (state, what) in LEASE_TABLE:
        lease._move(what)
        assert lease.state is LEASE_TABLE[state, what]
    else:
        with pytest.raises(StateError):
            lease._move(what)
        assert lease.state is state
