"""The pool against an independent account, over every interleaving of requests, words, deaths, restarts and time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from duplex.connector.base import Handle
from duplex.connector.payload import Kind
from duplex.engine.base import StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.errors import NoReplica, ReplicaLost, StageError, StateError
from duplex.orchestrator.pool import StagePool
from duplex.orchestrator.pooling import (
    Abort,
    AbortOn,
    Died,
    Discard,
    Forget,
    Forward,
    PoolEffect,
    PoolEvent,
    Quarantined,
    Rebuilt,
    Release,
    Restart,
    Said,
    Shut,
    Started,
    Submit,
    SubmitTo,
    Unbound,
    Update,
    UpdateTo,
)
from duplex.orchestrator.replica import RestartPolicy
from duplex.session.fence import MAIN, Fence

REPLICAS = 3
SESSIONS = [f"s{number}" for number in range(4)]
WINDOW_S, FIRST_S, MOST_S = 20.0, 0.25, 0.4
MOST_PARKED, PARK_S, MOST_INPUTS = 2, 1.0, 3


@dataclass
class Account:
    """One request, from outside. `made`: outputs of its present replica; `seen`: input that this one was given."""

    fence: Fence
    number: int | None = None
    inputs: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    made: int = 0
    passed: int = 0
    until_s: float | None = None
    once: bool = False
    """Whether it has waited, or lost a replica: it has no other try."""

    def replaceable(self) -> bool:
        return not self.once and len(self.inputs) <= MOST_INPUTS


@dataclass
class Machine:
    """One replica, from outside."""

    state: str = "starting"
    life: int = 0
    died_s: list[float] = field(default_factory=list)
    restart_s: float = 0.0


class PoolMachine(RuleBasedStateMachine):
    """Replicas that answer in any order, late and twice, and die whenever they like."""

    pure = False

    def __init__(self) -> None:
        super().__init__()
        self.chance = 0.5
        self.now = 100.0
        self.keys = self.epoch = 0
        self.replicas = [Machine() for _ in range(REPLICAS)]
        self.alive: dict[Fence, Account] = {}
        self.bound: dict[str, int] = {}
        self.lost: set[str] = set()
        self.ended: Counter[Fence] = Counter()
        self.submitted: set[tuple[Fence, int, int]] = set()
        self.readers: Counter[int] = Counter()
        self.owed: dict[int, int] = {}
        self.failed: dict[Fence, StageError] = {}

    # What the pool does ---------------------------------------------------------------------------

    def do(self, event: PoolEvent) -> list[PoolEffect]:
        return self.follow(self.core.receive(event, self.now))

    def follow(self, effects: list[PoolEffect]) -> list[PoolEffect]:
        for effect in effects:
            self.check(effect)
        return effects

    def check(self, effect: PoolEffect) -> None:
        match effect:
            case SubmitTo(number=number, request=request):
                self.check_submit(number, request.fence)
            case UpdateTo(number=number, fence=fence, handle=handle):
                account = self.alive[fence]
                assert account.number == number, "input for a replica that has not got the request"
                assert handle is not None
                assert handle.fence == fence
                account.seen.append(handle.key)
                assert account.seen == account.inputs[: len(account.seen)], "input in another order"
                self.readers[handle.key] += 1
            case AbortOn(number=number, fence=fence):
                assert self.alive[fence].number == number
                assert self.replicas[number].state == "ready", "a word to a replica that is dead"
            case Forward(event=event):
                self.check_forward(event)
            case Discard(handle=handle):
                self.readers[handle.key] += 1
            case Restart(number=number, life=life):
                replica = self.replicas[number]
                assert replica.state in ("waiting", "quarantined")
                assert life == replica.life + 1
                replica.state, replica.life = "starting", life
            case Unbound(session_id=session_id, number=number):
                assert self.replicas[number].state in ("waiting", "quarantined")
                assert self.bound.pop(session_id) == number
                self.lost.add(session_id)
            case Rebuilt(session_id=session_id, number=number):
                assert session_id in self.lost, "rebuilt, and had lost nothing"
                self.lost.discard(session_id)
                assert number == self.least(), "not the one that has the least to do"
                self.bound[session_id] = number
            case Quarantined(number=number):
                assert self.replicas[number].state == "quarantined"

    def check_submit(self, number: int, fence: Fence) -> None:
        replica, account = self.replicas[number], self.alive[fence]
        assert replica.state == "ready", "a request for a replica that is not ready"
        assert (fence, number, replica.life) not in self.submitted, "submitted twice"
        self.submitted.add((fence, number, replica.life))
        assert account.number is None, "it has a replica already"
        assert fence.session_id not in self.lost, "not told that its replica is new"
        assert number == self.bound.setdefault(fence.session_id, self.least()), "neither its own, nor the least"
        account.number, account.seen, account.made, account.until_s = number, [], 0, None

    def check_forward(self, event: StageEvent) -> None:
        account = self.alive[event.fence]
        match event:
            case StageOutput(handle=handle):
                assert handle.nbytes == account.passed, "a chunk is doubled or lost"
                account.passed += 1
                self.readers[handle.key] += 1
            case StageFinished():
                assert account.made == account.passed
                self.end(event.fence)
            case StageFailed(fence=fence, error=error):
                assert isinstance(error, StageError)
                self.failed[fence] = error
                self.end(fence)

    def end(self, fence: Fence) -> None:
        del self.alive[fence]
        self.ended[fence] += 1
        assert self.ended[fence] == 1

    def load(self, number: int) -> tuple[int, int, int]:
        requests = sum(account.number == number for account in self.alive.values())
        return requests, sum(one == number for one in self.bound.values()), number

    def least(self) -> int:
        return min(number for number in self.ready() if self.load(number) == min(map(self.load, self.ready())))

    def ready(self) -> list[int]:
        return [number for number, replica in enumerate(self.replicas) if replica.state == "ready"]

    def hopeless(self) -> bool:
        return all(replica.state == "quarantined" for replica in self.replicas)

    def handle(self, fence: Fence, owed: int, index: int = 0) -> Handle:
        self.keys += 1
        self.owed[self.keys] = owed
        return Handle(fence=fence, kind=Kind.TEXT, key=self.keys, nbytes=index)

    def parked(self) -> list[Account]:
        return [account for account in self.alive.values() if account.number is None]

    def any_fence(self, data: st.DataObject) -> Fence:
        """Most often one that is alive."""
        old = sorted(self.ended)[-2:]
        return data.draw(st.sampled_from([*sorted(self.alive) * 3, *old, Fence("nobody", 0, MAIN, 1)]))

    # What happens to it ---------------------------------------------------------------------------

    @rule(session=st.sampled_from(SESSIONS), chunks=st.integers(0, 4))
    def submit(self, session: str, chunks: int) -> None:
        self.epoch += 1
        fence = Fence(session, 0, MAIN, self.epoch)
        may_wait = len(self.parked()) < MOST_PARKED and not self.hopeless()
        account = self.alive[fence] = Account(fence=fence)
        self.do(Submit(request=StageRequest(fence=fence, stage="talk")))
        if self.ready():
            assert account.number is not None
            assert fence in self.alive
        elif may_wait:
            assert fence in self.alive
            account.until_s, account.once = self.now + PARK_S, True
        else:
            error = self.failed[fence]
            assert isinstance(error, NoReplica)
            assert (error.retry_after_s is None) == self.hopeless()
        self.give(fence, chunks)

    @rule(data=st.data(), chunks=st.integers(1, 3))
    def update(self, data: st.DataObject, chunks: int) -> None:
        self.give(self.any_fence(data), chunks)

    def give(self, fence: Fence, chunks: int) -> None:
        for _ in range(chunks):
            account = self.alive.get(fence)
            handle = self.handle(fence, 2 if self.pure else 1)
            if account is not None:
                account.inputs.append(handle.key)
            self.do(Update(fence=fence, handle=handle, final=False))
            if account is None:
                assert self.readers[handle.key] == self.owed[handle.key]
            elif account.number is None:
                assert (fence in self.alive) == (len(account.inputs) <= MOST_INPUTS), "what waits is bounded"
            else:
                assert account.seen[-1] == handle.key, "input was held back"

    def says(self, account: Account, event: StageEvent) -> None:
        number = account.number
        assert number is not None
        self.do(Said(number=number, life=self.replicas[number].life, event=event))

    def placed(self) -> list[Account]:
        return [account for account in self.alive.values() if account.number is not None]

    @precondition(lambda self: self.placed())
    @rule(data=st.data(), chunks=st.integers(0, 3), end=st.sampled_from(["", "", "finish", "fail"]))
    def say(self, data: st.DataObject, chunks: int, end: str) -> None:
        account = data.draw(st.sampled_from(self.placed()))
        fence = account.fence
        self.speak(account, chunks)
        if end == "finish":
            self.finish(account)
        elif end == "fail":
            error = StageError("broke", stage="talk")
            self.says(account, StageFailed(fence=fence, stage="talk", error=error))
            assert self.failed[fence] is error

    @precondition(lambda self: any(account.made < account.passed for account in self.placed()))
    @rule(chunks=st.integers(0, 3))
    def say_again(self, chunks: int) -> None:
        """One that is tried for the second time comes to its end."""
        account = next(account for account in self.placed() if account.made < account.passed)
        self.speak(account, chunks)
        self.finish(account)

    def speak(self, account: Account, chunks: int) -> None:
        for _ in range(chunks):
            output = StageOutput(fence=account.fence, stage="talk", handle=self.handle(account.fence, 1, account.made))
            account.made += 1
            self.says(account, output)
            assert account.passed >= account.made, "a chunk was not passed on"

    def finish(self, account: Account) -> None:
        honest = account.made == account.passed
        self.says(account, StageFinished(fence=account.fence, stage="talk"))
        assert (account.fence in self.failed) != honest, "chunks that had come are missing the second time"

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), number=st.integers(0, REPLICAS - 1), late=st.booleans(), what=st.sampled_from("of"))
    def say_what_is_not_true(self, data: st.DataObject, number: int, late: bool, what: str) -> None:
        """Words of a replica that does not have the request, or of an earlier life of the one that does."""
        fence = self.any_fence(data)
        account = self.alive.get(fence)
        if account is not None:
            with pytest.raises(StateError):
                self.do(Submit(request=StageRequest(fence=fence, stage="talk")))
        self.hear_late(number)
        if account is not None and account.number == number and not late:
            return
        handle = self.handle(fence, 1)
        event: StageEvent = StageFinished(fence=fence, stage="talk")
        if what == "o":
            event = StageOutput(fence=fence, stage="talk", handle=handle)
        effects = self.do(Said(number=number, life=self.replicas[number].life - late, event=event))
        assert effects == ([Discard(handle=handle)] if what == "o" else [])
        self.owed.pop(handle.key)

    @precondition(lambda self: len(self.alive) > 2)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        fence = self.any_fence(data)
        account = self.alive.get(fence)
        effects = self.do(Abort(fence=fence))
        assert not any(isinstance(effect, Forward) for effect in effects), "an aborted request says nothing more"
        told = [effect for effect in effects if isinstance(effect, AbortOn)]
        assert len(told) == (account is not None and account.number is not None)
        if account is not None:
            self.end(fence)

    @precondition(lambda self: len(self.alive) > 2 or len(self.lost) > 1)
    @rule(session=st.sampled_from(SESSIONS))
    def forget(self, session: str) -> None:
        effects = self.do(Forget(session_id=session))
        assert not any(isinstance(effect, Forward) for effect in effects)
        for fence in [fence for fence in self.alive if fence.session_id == session]:
            self.end(fence)
        self.bound.pop(session, None)
        self.lost.discard(session)
        assert session not in self.core.fleet._bound
        assert session not in self.core.fleet._lost

    # What happens to replicas ---------------------------------------------------------------------

    def starting(self) -> list[int]:
        return [number for number, replica in enumerate(self.replicas) if replica.state == "starting"]

    @initialize(ready=st.sampled_from([True, True, False]), deaths=st.integers(1, 3))
    def begin(self, ready: bool, deaths: int) -> None:
        self.deaths = deaths
        self.core = StagePool(
            stage="talk",
            replicas=REPLICAS,
            policy=RestartPolicy(first_s=FIRST_S, most_s=MOST_S, deaths=deaths, window_s=WINDOW_S),
            chance=lambda: self.chance,
            pure=self.pure,
            most_parked=MOST_PARKED,
            park_s=PARK_S,
            most_inputs=MOST_INPUTS,
        )
        if ready:
            self.start_all()

    @precondition(lambda self: self.starting())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.start_one(data.draw(st.sampled_from(self.starting())))

    @precondition(lambda self: self.starting())
    @rule()
    def start_all(self) -> None:
        for number in self.starting():
            self.start_one(number)

    def start_one(self, number: int) -> None:
        self.replicas[number].state = "ready"
        self.do(Started(number=number, life=self.replicas[number].life))
        assert not self.parked(), "a replica is ready, and requests wait"

    @precondition(lambda self: len(self.alive) > 1 and self.placed())
    @rule(data=st.data(), chunks=st.integers(0, 3), chance=st.floats(0, 1, exclude_max=True))
    def die_at_work(self, data: st.DataObject, chunks: int, chance: float) -> None:
        self.chance = chance
        account = data.draw(st.sampled_from(self.placed()))
        self.speak(account, chunks)
        assert account.number is not None
        self.kill(account.number)

    @precondition(lambda self: self.starting())
    @rule(data=st.data())
    def die_at_start(self, data: st.DataObject) -> None:
        self.kill(data.draw(st.sampled_from(self.starting())))

    @precondition(lambda self: len(self.alive) > 3)
    @rule(starting=st.booleans())
    def die_all(self, starting: bool) -> None:
        """One after the other, as in a machine that has no memory left."""
        for number in [*self.ready(), *(self.starting() if starting else [])]:
            self.kill(number)

    def kill(self, number: int) -> None:
        replica = self.replicas[number]
        replica.died_s.append(self.now)
        recent = sum(self.now - died_s <= WINDOW_S for died_s in replica.died_s)
        replica.state = "quarantined" if recent >= self.deaths else "waiting"
        pause_s = min(MOST_S, FIRST_S * 2 ** (recent - 1)) * (0.5 + 0.5 * self.chance)
        replica.restart_s = self.now + pause_s
        victims = [account for account in self.alive.values() if account.number == number]
        others = {fence: account.number for fence, account in self.alive.items() if account.number != number}
        again = [account for account in victims if self.pure and account.replaceable()]
        room = MOST_PARKED - len(self.parked())
        sessions = {session for session, one in self.bound.items() if one == number}
        for account in victims:
            account.number = None
        effects = self.do(Died(number=number, life=replica.life, reason="signal 9"))
        assert {effect.session_id for effect in effects if isinstance(effect, Unbound)} == sessions
        assert any(isinstance(effect, Quarantined) for effect in effects) == (replica.state == "quarantined")
        hopeless = self.hopeless()
        assert hopeless or others == {fence: one.number for fence, one in self.alive.items() if fence in others}
        for account in victims:
            kept = account in again and (bool(self.ready()) or (not hopeless and again.index(account) < room))
            assert (account.fence in self.alive) == kept
            account.once = True
            if not kept:
                assert isinstance(self.failed[account.fence], ReplicaLost)
                assert "signal 9" in str(self.failed[account.fence])
            elif account.number is None:
                account.until_s = self.now + PARK_S

    def hear_late(self, number: int) -> None:
        """What is said of an earlier life, and a death that is known already."""
        replica = self.replicas[number]
        late = replica.life - 1
        assert self.do(Started(number=number, life=late)) == []
        assert self.do(Died(number=number, life=late, reason="late")) == []
        if replica.state in ("waiting", "quarantined"):
            assert self.do(Died(number=number, life=replica.life, reason="twice")) == []
            assert self.do(Started(number=number, life=replica.life)) == []

    @precondition(lambda self: any(replica.state == "quarantined" for replica in self.replicas))
    @rule()
    def release(self) -> None:
        for number, replica in enumerate(self.replicas):
            if replica.state == "quarantined":
                self.do(Release(number=number))
                assert replica.state == "starting"
                replica.died_s.clear()
            else:
                with pytest.raises(StateError):
                    self.do(Release(number=number))

    # Time -----------------------------------------------------------------------------------------

    @rule(step_s=st.sampled_from([0.2, 0.5, 0.5, 1.0, 25.0]), punctual=st.booleans())
    def pass_time(self, step_s: float, punctual: bool) -> None:
        until = self.now + step_s
        while (deadline := self.core.deadline) is not None and deadline <= until:
            self.now = max(self.now, deadline) if punctual else until
            self.wake()
        self.now = until
        self.wake()

    def wake(self) -> None:
        over = [account for account in self.parked() if account.until_s is not None and account.until_s <= self.now]
        due = [number for number, one in enumerate(self.replicas) if one.state == "waiting"]
        due = [number for number in due if self.replicas[number].restart_s <= self.now]
        effects = self.follow(self.core.wake(self.now))
        assert [effect.number for effect in effects if isinstance(effect, Restart)] == due
        ended = [effect.event.fence for effect in effects if isinstance(effect, Forward)]
        assert ended == [account.fence for account in over]
        assert all(isinstance(self.failed[fence], NoReplica) for fence in ended)

    # What always holds ----------------------------------------------------------------------------

    @invariant()
    def the_books_agree(self) -> None:
        self.core.check_integrity()
        view = self.core.snapshot(self.now)
        assert len(self.core) == len(self.alive)
        assert view.parked == len(self.parked()) <= MOST_PARKED
        assert not (self.parked() and (self.ready() or self.hopeless()))
        for shown, replica in zip(view.replicas, self.replicas, strict=True):
            assert shown.state == replica.state
            assert (shown.queue, shown.sessions, shown.number) == self.load(shown.number)
            assert shown.restarts == replica.life
            waits = replica.state == "waiting"
            assert shown.next_restart_s == (pytest.approx(max(replica.restart_s - self.now, 0)) if waits else None)
        assert self.core.fleet._lost == self.lost
        for fence, account in self.alive.items():
            if account.number is not None:
                assert self.core.holds(account.number, fence)
                assert account.seen == account.inputs

    @invariant()
    def every_payload_is_read_as_often_as_it_may_be(self) -> None:
        held = {key for account in self.alive.values() for key in account.inputs}
        for key, owed in list(self.owed.items()):
            if key in held:
                assert self.readers[key] <= owed
            else:
                assert self.readers[key] == owed
                del self.owed[key]

    def teardown(self) -> None:
        effects = self.core.receive(Shut(), self.now)
        for effect in effects:
            self.check(effect)
        assert not any(isinstance(effect, Forward) for effect in effects)
        self.alive.clear()
        self.every_payload_is_read_as_often_as_it_may_be()
        assert len(self.core) == 0


class PurePoolMachine(PoolMachine):
    """The same for a stage whose requests can be given to another replica."""

    pure = True


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestPurePool = PurePoolMachine.TestCase
TestPurePool.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
