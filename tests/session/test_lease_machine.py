"""Lease, journal and core under one runner, a fake clock, and a client that is cut off in every way there is.

The runner is the server's own; what an event loop would do for it is done by hand, so that every interleaving can be
had. The account is the client's: it keeps what it has received, and what the session has told in all, and wants to have
each thing once, in order, but for the audio of turns that were interrupted; or else to be told the whole state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Speech, Text, Voiced
from duplex.engine.base import StageOptions
from duplex.errors import ClientError
from duplex.orchestrator.core import Deliver, RequestCompleted
from duplex.session.attachment import Attachment
from duplex.session.core import Session
from duplex.session.events import AppendAudio, CancelResponse, ClientEvent, Close, CreateItem, CreateResponse, Played
from duplex.session.fence import INPUT, MAIN, Fence
from duplex.session.holdings import HOST_MEMORY, OWNER, ConversationState
from duplex.session.item import Item, Part
from duplex.session.journal import Journal
from duplex.session.lease import Lease, LeaseState
from duplex.session.notices import Closed, Interrupted, Notice, Snapshot
from duplex.session.outbox import Outbox
from duplex.session.port import Audio, Entry
from duplex.session.runner import SessionRunner
from duplex.session.settings import SessionLimits, SessionSettings
from duplex.session.turnlog import TurnLog
from duplex.state.store import StateStore
from tests.session.frozen import frozen

T = TypeVar("T")

GRACE_S = 30.0
LIMITS = SessionLimits(idle_s=100_000, lifetime_s=200_000, audio_ahead_s=0.5)
WINDOW = 512
LOST = st.sampled_from([0, 0, 1, 3, 8, 40])
"""Things that are on their way: up to more than the journal keeps."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as over:
        return over.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


@dataclass
class Requests:
    """An orchestrator that only knows which requests are alive."""

    live: dict[Fence, tuple[str, ...]] = field(default_factory=dict)
    submitted: list[Fence] = field(default_factory=list)
    aborted: set[Fence] = field(default_factory=set)

    def admit(self, fence: Fence, stages: tuple[str, ...], receiver: object, options: StageOptions) -> None:
        self.live[fence] = stages
        self.submitted.append(fence)

    def update(self, fence: Fence, stage: str, handle: Any, *, last: bool) -> None:
        """Nobody reads the input."""

    def silenced(self, fence: Fence) -> bool:
        """Whether its turn was interrupted, or a later one of its lane."""
        return any(one == fence or one.outdates(fence) for one in self.aborted)

    def abort(self, fence: Fence) -> None:
        self.live.pop(fence, None)
        self.aborted.add(fence)


@dataclass
class Client:
    """What one person's devices have, over all their connections."""

    connection: Attachment | None = None
    token: str = "secret-0"
    seen: int = 0
    received: list[Notice | Audio] = field(default_factory=list)
    silenced: int = -1
    in_flight: list[Entry] = field(default_factory=list)


WORDS = st.sampled_from([0, 0, 3, 70])
"""Pieces of an answer that come while nobody listens: up to more than the journal has room for."""

END = st.sampled_from(["complete", "interrupted", "interrupted at its tail"])


class LeaseMachine(RuleBasedStateMachine):
    """One session and its client, whose connections come and go."""

    acknowledged = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.requests = Requests()
        self.connector = MemoryConnector(budget_bytes=1 << 24)
        self.counters: Counter[str] = Counter()
        self.states: StateStore[ConversationState] = StateStore(owner=OWNER, budgets={HOST_MEMORY: 1 << 24})
        core = Session(
            session_id="sess_t", settings=SessionSettings(), limits=LIMITS, now=self.now, acknowledged=self.acknowledged
        )
        self.runner = SessionRunner(
            core=core,
            lease=Lease(token="secret-0", grace_s=GRACE_S),
            limits=LIMITS,
            states=self.states,
            orchestrator=self.requests,  # type: ignore[arg-type]
            connector=self.connector,
            turns=TurnLog(capacity=8),
            counters=self.counters,
            mailbox_events=10_000,
            clock=lambda: self.now,
        )
        # Small enough that everything overflows now and then.
        self.journal = Journal(waiting=60, kept=12, kept_bytes=40_000)
        self.runner._outbox = Outbox(journal=self.journal)
        self.core = core
        self.told: list[Notice | Audio] = []
        self.numbers: dict[int, int] = {}
        self.restarted = 0  # things told before this index may be missed: a snapshot came, or is to come
        self.silent = -1  # the newest epoch that was interrupted
        self.spent: list[str] = []
        self.former: list[Attachment] = []
        self.secrets = 0
        self.listened = 0
        self.detached_at: float | None = None
        self.attached_at = 0
        self._watch()
        self.runner._perform(core.open())
        self.client = Client(connection=self.attachment(0, "secret-0"))

    def _watch(self) -> None:
        put, drop = self.runner._put, self.journal.drop

        def told(one: Notice | Audio) -> None:
            if isinstance(one, Audio):
                assert self.state is LeaseState.ATTACHED, "it is played, and nobody listens"
            if isinstance(one, Interrupted):
                self.silent = one.epoch
            self.told.append(one)
            put(one)

        def dropped() -> None:
            self.restarted = len(self.told)
            drop()

        self.runner._put = told  # type: ignore[method-assign]
        self.journal.drop = dropped  # type: ignore[method-assign]

    def attachment(self, generation: int, token: str, *, resynced: bool = False) -> Attachment:
        return Attachment(
            runner=self.runner, generation=generation, token=token, grace_s=GRACE_S, wire=None, resynced=resynced
        )

    def work(self) -> None:
        if not self.core.closed:
            self.runner._work()
        if self.core.closed:
            self.runner._lease.close()

    @property
    def state(self) -> LeaseState:
        return self.runner._lease.state

    # What happens in the session ----------------------------------------------------------------

    def send(self, event: ClientEvent) -> None:
        if self.client.connection is not None:
            at_once(self.client.connection.send(event))
        self.work()

    @rule(chunks=st.integers(0, 6), samples=st.integers(1000, 9000))
    def ask(self, chunks: int, samples: int) -> None:
        part = Part(kind="text", text="Well?")
        self.send(CreateItem(item=Item(item_id="", role="user", status="completed", parts=(part,))))
        self.send(CreateResponse())
        for _ in range(chunks):
            self.answer("Well", samples)

    @rule()
    def cancel(self) -> None:
        self.send(CancelResponse())

    @rule()
    def speak_up(self) -> None:
        """The user's voice, which interrupts whatever is to be heard."""
        if self.client.connection is None:
            return
        for loud in (0.95, 0.95, 0.95, 0.95, 0.01, 0.01):
            self.send(AppendAudio(pcm=np.ones(WINDOW, np.int16)))
            report = Speech(start=self.listened, window=WINDOW, probabilities=(loud,))
            self.listened += WINDOW
            self.deliver(Fence("sess_t", 0, INPUT, 0), report)

    def deliver(self, fence: Fence, payload: Any) -> None:
        if fence in self.requests.live:
            self.runner._requests.reported(Deliver(fence=fence, stage="any", handle=self.connector.put(fence, payload)))
        self.work()

    @property
    def main(self) -> Fence | None:
        return next((fence for fence in self.requests.live if fence.lane == MAIN), None)

    @rule(samples=st.integers(1, 9000), chunks=st.integers(1, 20))
    def answer_on(self, samples: int, chunks: int) -> None:
        for _ in range(chunks):
            self.answer(" and", samples)

    def answer(self, words: str, samples: int) -> None:
        if (fence := self.main) is not None:
            self.deliver(fence, Text(text=words, start=0))
            self.deliver(fence, Voiced(samples=np.ones(samples, np.int16), rate_hz=24_000, text_end=5))

    @rule()
    def complete(self) -> None:
        if (fence := self.main) is not None:
            del self.requests.live[fence]
            self.runner._requests.reported(
                RequestCompleted(fence=fence, reason="stop", input_tokens=1, cached_tokens=0, output_tokens=1)
            )
            self.work()

    @rule(seconds=st.floats(0.01, 2))
    def time(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(10_000):
            deadline = self.runner._deadline() if not self.core.closed else None
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.work()
        else:
            raise AssertionError("the session never stops waking")
        self.now = until

    @rule(really=st.integers(0, 30))
    def close(self, really: int) -> None:
        if really == 0:
            self.send(Close(reason="client"))

    # What the client receives -------------------------------------------------------------------

    @rule(seconds=st.floats(0.05, 2), steps=st.integers(1, 10), end=END, lost=LOST)
    def a_turn_that_is_heard(self, seconds: float, steps: int, end: str, lost: int) -> None:
        """An answer, received as it comes: to its end, or until the user speaks, or until then when all is sent."""
        self.ask(chunks=5, samples=3000)
        for _ in range(steps):
            self.receive(count=30, lost=lost)
            self.time(seconds / steps)
        if end != "interrupted":
            self.complete()
        if end == "interrupted at its tail":
            self.time(0.2)
            self.receive(count=30, lost=lost)
        if end != "complete":
            self.speak_up()

    @rule(
        how=st.sampled_from(["cut", "replaced", "lost reply"]),
        meanwhile_s=st.floats(0, 5),
        lost=LOST,
        words=st.sampled_from([0, 0, 3, 70]),
    )
    def a_break(self, how: str, meanwhile_s: float, lost: int, words: int) -> None:
        """The connection goes, with what was on its way, and another comes."""
        self.receive(count=30, lost=lost)
        if how != "replaced":
            self.cut()
            self.time(meanwhile_s)
        for _ in range(words):
            self.answer(" more", 500)
        if how == "lost reply":
            self.come_back(lost_reply=True, at_once_=True)
        self.come_back(lost_reply=False, at_once_=False)

    @rule(count=st.integers(1, 30), lost=LOST)
    def receive(self, count: int, lost: int) -> None:
        """So many things leave the server; the last few are still on their way, and arrive later or never."""
        connection = self.client.connection
        for _ in range(count):
            if connection is None or not len(self.journal):
                break
            entry = at_once(connection.next())
            assert entry is not None
            self.check_sent(entry)
            self.client.in_flight.append(entry)
        while len(self.client.in_flight) > lost:
            self.arrive(self.client.in_flight.pop(0))

    def check_sent(self, entry: Entry) -> None:
        known = self.numbers.setdefault(entry.sequence, id(entry.told))
        assert known == id(entry.told), "a number names one thing"
        if isinstance(entry.told, Audio):
            assert not self.requests.silenced(entry.told.fence), "sound of an interrupted turn left the server"
            assert entry.told.fence.epoch > self.silent, "sound of an interrupted turn left the server"

    def arrive(self, entry: Entry) -> None:
        client = self.client
        assert entry.sequence > client.seen, "something came twice"
        client.seen = entry.sequence
        if isinstance(entry.told, Snapshot):
            client.received.clear()
        if isinstance(entry.told, Audio):
            assert entry.told.fence.epoch > client.silenced, "sound of an interrupted turn after the word of it"
        if isinstance(entry.told, Interrupted):
            client.silenced = max(client.silenced, entry.told.epoch)
        client.received.append(entry.told)

    @rule()
    def acknowledge(self) -> None:
        if self.client.connection is not None:
            self.client.connection.acknowledge(self.client.seen)
            if self.state is LeaseState.ATTACHED and self.client.connection.generation:
                self.spent.extend(token for token in self.used() if token not in self.spent)

    def used(self) -> list[str]:
        return [f"secret-{number}" for number in range(self.secrets)]

    # Connections --------------------------------------------------------------------------------

    @rule()
    def cut(self) -> None:
        if (connection := self.client.connection) is None:
            return
        self.client.connection = None
        self.client.in_flight.clear()
        self.former.append(connection)
        if self.state is LeaseState.ATTACHED:
            self.detached_at = self.now
        connection.detach()
        self.work()

    def resume(self, token: str, seen: int) -> Attachment | None:
        """Attach; None where the session is over."""
        lease = self.runner._lease
        before = lease.generation
        if lease.state is LeaseState.CLOSED:
            with pytest.raises(ClientError, match="over"):
                self.runner.attach(token, seen=seen, following="never")
            return None
        self.secrets += 1
        following = f"secret-{self.secrets}"
        generation, resynced = self.runner.attach(token, seen=seen, following=following)
        assert generation == before + 1
        self.attached_at = len(self.requests.submitted)
        return self.attachment(generation, following, resynced=resynced)

    @rule(lost_reply=st.booleans(), at_once_=st.booleans())
    def come_back(self, lost_reply: bool, at_once_: bool) -> None:
        """Resume, in place of a connection that may still be there; the answer may be lost, and everything with it."""
        former, self.client.connection = self.client.connection, None
        self.client.in_flight.clear()
        known = self.client.token
        connection = self.resume(known, self.client.seen)
        if connection is None:
            return
        if former is not None:
            self.former.append(former)
        if at_once_:
            self.work()
        if lost_reply:
            self.former.append(connection)
            connection.detach()
            self.detached_at = self.now
            self.work()
            return
        self.client.connection = connection
        self.client.token = connection.token
        self.work()

    @precondition(lambda self: self.former)
    @rule(data=st.data())
    def a_former_connection_does_something(self, data: st.DataObject) -> None:
        """It has no effect, and it is told why."""
        former = data.draw(st.sampled_from(self.former))
        if former.generation == self.runner._lease.generation and self.state is LeaseState.ATTACHED:
            return
        before = frozen([self.runner._lease, self.journal, self.core.conversation, len(self.runner._mailbox)])
        assert not at_once(former.send(CreateResponse()))
        former.acknowledge(10**9)
        former.detach()
        if self.runner._lease.generation > former.generation and not former._over:
            entry = at_once(former.next())
            assert entry is not None
            assert isinstance(entry.told, Closed)
            assert entry.told.reason == "replaced"
            assert at_once(former.next()) is None
        after = frozen([self.runner._lease, self.journal, self.core.conversation, len(self.runner._mailbox)])
        assert after == before

    @rule(kind=st.sampled_from(["forged", "spent", "future"]))
    def come_back_wrongly(self, kind: str) -> None:
        token, seen = self.client.token, self.client.seen
        code = "resume_token_invalid"
        match kind:
            case "forged":
                token = "secret-999"
            case "spent":
                if not self.spent:
                    return
                token = self.spent[-1]
            case "future":
                seen, code = self.journal.sequence + 1, "sequence_unknown"
        before = frozen([self.runner._lease, self.journal])
        with pytest.raises(ClientError) as caught:
            self.runner.attach(token, seen=seen, following="never")
        assert caught.value.code in (code, "session_closed")
        assert frozen([self.runner._lease, self.journal]) == before

    @rule(ahead=st.integers(1, 3))
    def acknowledge_the_future(self, ahead: int) -> None:
        if (connection := self.client.connection) is None or not self.runner._lease.owns(connection.generation):
            return
        before = frozen([self.runner._lease, self.journal])
        with pytest.raises(ClientError):
            connection.acknowledge(self.journal.sequence + ahead)
        assert frozen([self.runner._lease, self.journal]) == before

    @precondition(lambda self: self.client.connection is None)
    @rule()
    def nobody_comes(self) -> None:
        if self.state is LeaseState.DETACHED:
            assert self.detached_at is not None
            self.time(self.detached_at + GRACE_S - self.now - 0.001 if self.now < self.detached_at + GRACE_S else 0.0)
            assert not self.core.closed, "the grace time is not over"
            self.time(0.01)
            assert self.core.closed
            assert isinstance(self.told[-1], Closed)

    # What always holds --------------------------------------------------------------------------

    @invariant()
    def the_books_are_right(self) -> None:
        assert self.states.check_integrity() == []

    @invariant()
    def what_was_said_arrives_in_order(self) -> None:
        """What the client has is what was told since it was told the whole state, without what was interrupted."""
        last = self.told[-1]
        if isinstance(last, Closed) and last.reason == "slow_reader":
            return  # It was told that, and is told nothing more.
        place = {id(one): index for index, one in enumerate(self.told)}
        places = [place[id(one)] for one in self.client.received if not isinstance(one, Snapshot)]
        assert places == sorted(set(places))
        if not places:
            return
        missed = [self.told[index] for index in range(places[0], places[-1]) if index not in set(places)]
        for one in missed:
            assert isinstance(one, Audio), f"{one} was lost"
            assert self.requests.silenced(one.fence), "sound was lost that nobody interrupted"

    @invariant()
    def bounds_hold(self) -> None:
        assert self.journal.kept <= 12
        assert self.journal.kept_bytes <= 40_000
        assert self.journal.kept_bytes == sum(entry.nbytes for entry in self.journal._sent)

    @invariant()
    def turns_are_of_their_owner(self) -> None:
        generations = [fence.generation for fence in self.requests.submitted if fence.lane == MAIN]
        assert generations == sorted(generations)
        owner = self.runner._lease.generation
        if self.runner._held.__class__.__name__ == "Attached":
            assert self.core.answering._generation == self.runner._held.generation <= owner  # type: ignore[union-attr]

    def teardown(self) -> None:
        """In the end the client comes back and receives everything that there is."""
        self.come_back(lost_reply=False, at_once_=True)
        if self.client.connection is None:
            return
        self.receive(count=1000, lost=0)
        if self.told and self.client.received and self.restarted < len(self.told):
            assert self.client.received[-1] is self.told[-1] or isinstance(self.told[-1], Audio)


class AcknowledgedMachine(LeaseMachine):
    """The same, with a client that says what it has played."""

    acknowledged = True

    @rule(data=st.data(), too_much=st.booleans())
    def played(self, data: st.DataObject, too_much: bool) -> None:
        active = self.core.answering._answer
        known = [*self.core.answering.ledgers, *([active] if active is not None else [])]
        if not known or self.client.connection is None:
            return
        answer = data.draw(st.sampled_from(known))
        samples = answer.playback.sent + 1 if too_much else data.draw(st.integers(0, answer.playback.sent))
        before = answer.playback.played(self.now)
        self.send(Played(item_id=answer.item_id, samples=samples))
        expected = before if too_much else max(before, samples)
        assert answer.playback.played(self.now) == expected or not self.runner._lease.owns(
            self.client.connection.generation
        )

    @invariant()
    def never_more_ahead_than_agreed(self) -> None:
        answer = self.core.answering._answer
        if answer is not None and answer.playback.sent:
            ahead = answer.playback.sent - answer.playback.played(self.now)
            assert ahead <= max(LIMITS.audio_ahead_s * LIMITS.output_hz, 9000)


TestLease = LeaseMachine.TestCase
TestLease.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestAcknowledged = AcknowledgedMachine.TestCase
TestAcknowledged.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
