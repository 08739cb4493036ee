"""Single decisions of the pool, and of what it is made of."""

from __future__ import annotations

import pytest

from duplex.connector.base import Handle
from duplex.connector.payload import Kind
from duplex.engine.base import StageFailed, StageFinished, StageOutput, StageRequest
from duplex.errors import ConfigError, NoReplica, StateError
from duplex.orchestrator.pool import StagePool
from duplex.orchestrator.pooling import (
    Died,
    Discard,
    Forward,
    PoolEffect,
    Quarantined,
    Rebuilt,
    Restart,
    Said,
    Started,
    Submit,
    SubmitTo,
    Unbound,
    Update,
    UpdateTo,
)
from duplex.orchestrator.replica import REPLICA_TABLE, Replica, ReplicaInput, ReplicaState, RestartPolicy
from duplex.session.fence import MAIN, Fence

A, B = Fence("a", 0, MAIN, 1), Fence("b", 0, MAIN, 1)


def pool(*, ready: int = 2, replicas: int = 2, pure: bool = False, deaths: int = 3, most_inputs: int = 2) -> StagePool:
    policy = RestartPolicy(first_s=1.0, deaths=deaths)
    core = StagePool(
        stage="talk", replicas=replicas, policy=policy, chance=lambda: 0.0, pure=pure, most_inputs=most_inputs
    )
    for number in range(ready):
        core.receive(Started(number=number, life=0), 0.0)
    return core


def submit(fence: Fence) -> Submit:
    return Submit(request=StageRequest(fence=fence, stage="talk"))


def update(fence: Fence, key: int) -> Update:
    return Update(fence=fence, handle=handle(fence, key), final=False)


def handle(fence: Fence, key: int) -> Handle:
    return Handle(fence=fence, kind=Kind.TEXT, key=key, nbytes=1)


def failure(effect: PoolEffect) -> str:
    assert isinstance(effect, Forward)
    assert isinstance(effect.event, StageFailed)
    return str(effect.event.error)


def test_the_death_of_a_replica_in_order() -> None:
    core = pool()
    core.receive(submit(A), 0.0)
    told, failed = core.receive(Died(number=0, life=0, reason="signal 9"), 10.0)
    assert told == Unbound(session_id="a", number=0, reason="signal 9")
    assert failure(failed).endswith("not tried again: the stage is not pure; ask again")
    assert core.deadline == 10.5
    assert core.snapshot(10.1).replicas[0].next_restart_s == pytest.approx(0.4)
    assert core.wake(10.4) == []
    assert core.wake(10.5) == [Restart(number=0, life=1)]
    again = A.next()
    assert core.receive(submit(again), 11.0) == [
        Rebuilt(session_id="a", number=1),
        SubmitTo(number=1, request=StageRequest(fence=again, stage="talk")),
    ]
    assert core.receive(Started(number=0, life=1), 12.0) == []
    assert core.receive(submit(again.next()), 12.0)[0] == SubmitTo(
        number=1, request=StageRequest(fence=again.next(), stage="talk")
    ), "a session moves back by itself"


def test_a_pure_request_is_given_to_another_with_all_its_input_and_what_was_heard_is_not_heard_again() -> None:
    core = pool(pure=True)
    core.receive(submit(A), 0.0)
    for key in (1, 2):
        core.receive(update(A, key), 0.0)
    core.receive(Said(number=0, life=0, event=StageOutput(fence=A, stage="talk", handle=handle(A, 10))), 0.0)
    assert core.receive(Died(number=0, life=0, reason="signal 9"), 1.0) == [
        Unbound(session_id="a", number=0, reason="signal 9"),
        Rebuilt(session_id="a", number=1),
        SubmitTo(number=1, request=StageRequest(fence=A, stage="talk")),
        UpdateTo(number=1, fence=A, handle=handle(A, 1), final=False),
        UpdateTo(number=1, fence=A, handle=handle(A, 2), final=False),
    ]
    first, second = (StageOutput(fence=A, stage="talk", handle=handle(A, key)) for key in (11, 12))
    assert core.receive(Said(number=1, life=0, event=first), 1.0) == [Discard(handle=first.handle)]
    assert core.receive(Said(number=1, life=0, event=second), 1.0) == [Forward(event=second)]
    finished = StageFinished(fence=A, stage="talk")
    assert core.receive(Said(number=1, life=0, event=finished), 1.0) == [Forward(event=finished)]


def test_a_request_is_tried_twice_at_most() -> None:
    core = pool(pure=True, replicas=3, ready=3)
    core.receive(submit(A), 0.0)
    core.receive(Died(number=0, life=0, reason="signal 9"), 0.0)
    assert core.holds(1, A)
    _, failed = core.receive(Died(number=1, life=0, reason="signal 9"), 0.0)
    assert "it was tried twice" in failure(failed)


def test_input_that_is_too_long_to_be_kept_is_let_go() -> None:
    core = pool(pure=True)
    core.receive(submit(A), 0.0)
    assert [len(core.receive(update(A, key), 0.0)) for key in (1, 2)] == [1, 1]
    assert core.receive(update(A, 3), 0.0) == [
        UpdateTo(number=0, fence=A, handle=handle(A, 3), final=False),
        *(Discard(handle=handle(A, key)) for key in (1, 2, 3)),
    ]
    _, failed = core.receive(Died(number=0, life=0, reason="signal 9"), 0.0)
    assert "its input is more than the 2 chunks that are kept" in failure(failed)


def test_nobody_waits_for_replicas_that_do_not_come_back() -> None:
    core = pool(replicas=1, ready=1, deaths=2)
    core.receive(Died(number=0, life=0, reason="signal 9"), 0.0)
    assert core.receive(submit(A), 0.1) == []
    assert core.wake(0.5) == [Restart(number=0, life=1)]
    quarantined, failed = core.receive(Died(number=0, life=1, reason="signal 9"), 0.6)
    assert quarantined == Quarantined(number=0, reason="signal 9")
    assert failure(failed) == "talk: every replica is in quarantine; an operator has to release one"
    (failed,) = core.receive(submit(B), 0.7)
    assert isinstance(failed, Forward)
    assert isinstance(failed.event, StageFailed)
    assert isinstance(failed.event.error, NoReplica)
    assert failed.event.error.retry_after_s is None
    assert core.deadline is None


def test_deaths_count_for_a_quarantine_only_within_the_window() -> None:
    replica = Replica(number=0, policy=RestartPolicy(deaths=2, window_s=60.0))
    for life, now in enumerate((0.0, 60.1, 120.2)):
        assert replica.died(life, "signal 9", now, 0.0)
        replica.restart()
    assert replica.died(3, "signal 9", 180.2, 0.0)
    assert replica.state is ReplicaState.QUARANTINED


def test_pauses_grow_up_to_a_bound_and_half_of_each_is_chance() -> None:
    policy = RestartPolicy(first_s=1.0, factor=3.0, most_s=10.0)
    assert [policy.pause_s(deaths, 0.0) for deaths in (1, 2, 3, 4)] == [0.5, 1.5, 4.5, 5.0]
    assert policy.pause_s(2, 0.5) == 2.25


@pytest.mark.parametrize("state", ReplicaState)
@pytest.mark.parametrize("what", ReplicaInput)
def test_a_move_that_is_not_in_the_table_changes_nothing(state: ReplicaState, what: ReplicaInput) -> None:
    replica = Replica(number=0, policy=RestartPolicy())
    replica.state = state
    if (state, what) in REPLICA_TABLE:
        replica._move(what)
        assert replica.state is REPLICA_TABLE[state, what]
    else:
        with pytest.raises(StateError):
            replica._move(what)
        assert replica.state is state


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="it needs at least one"):
        pool(replicas=0, ready=0)
    for numbers in ((0.0, 2.0, 30.0, 60.0), (2.0, 2.0, 1.0, 60.0), (1.0, 0.5, 30.0, 60.0), (1.0, 2.0, 30.0, 0.0)):
        first_s, factor, most_s, window_s = numbers
        with pytest.raises(ConfigError, match="use positive times"):
            RestartPolicy(first_s=first_s, factor=factor, most_s=most_s, window_s=window_s)
    with pytest.raises(ConfigError, match="deaths of 1 or more"):
        RestartPolicy(deaths=0)
