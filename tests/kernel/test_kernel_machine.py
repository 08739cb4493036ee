"""Every interleaving that Hypothesis can think of over the whole kernel: many clients, and everything that can fail.

`make test` tries a few hundred stories. For thousands: `python -m pytest tests/kernel --hypothesis-profile thorough`.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from duplex.errors import ClientError, StateError, UnknownState
from duplex.session.admission import REFRESH_S
from duplex.session.events import (
    AppendAudio,
    CancelResponse,
    ClearAudio,
    ClientEvent,
    Close,
    CommitAudio,
    Configure,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Played,
    RetrieveItem,
    TruncateItem,
)
from duplex.session.holdings import CONVERSATION
from duplex.session.item import Item, Part
from duplex.session.lease import LeaseState
from duplex.session.notices import Closed, ItemDone, Queued, Refused
from duplex.session.port import Terms
from duplex.session.settings import SemanticVad, ServerVad, SessionSettings, TurnDetection
from duplex.state.ref import StateKey
from tests.kernel.account import Record, visible
from tests.kernel.client import Client, Connection, at_once, heard_at_once
from tests.kernel.engines import WINDOW
from tests.kernel.kernel import BOUNDS, CONNECTOR_BYTES, EVENTS, GRACE_S, PLACES, QUEUE, REQUESTS, WAIT_S, Kernel
from tests.session.frozen import frozen

TICKS = st.sampled_from([None, None, None, 0, 1, 2, 5])
"""Rounds of the loop after something has happened; None for as many as it takes."""

WHO = st.integers(0, 7)
ROUNDS = st.sampled_from([0, 1, 2, 3, 5, 60, 400])
LOST = st.sampled_from([0, 0, 1, 3, 6, 30])
"""Things that are on their way: up to more than the journal keeps."""

WORDS = st.sampled_from([0, 0, 3, 90, 200])
"""Pieces of an answer: up to more than may wait to be sent."""

DETECTIONS = [
    ServerVad(silence_ms=200),
    ServerVad(silence_ms=100, prefix_padding_ms=0),
    SemanticVad(),
    SemanticVad(interrupt_response=False),
    ServerVad(create_response=False),
    None,
]
STAGES = ["endpoint", "hear", "hear", "think", "think", "talk", "code2wav", "code2wav", "listen"]
KINDS = [
    Terms(),
    Terms(resumable=True, wire="as agreed"),
    Terms(resumable=True, wire="as agreed"),
    Terms(resumable=True, acknowledged=True, wire="as agreed"),
]


class KernelMachine(RuleBasedStateMachine):
    """One server, its clients, and its engines."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.account = self.kernel.account
        self.clients: list[Client] = []
        self.settled = True
        self.closing = False

    def go(self, ticks: int | None) -> None:
        if ticks is None:
            self.kernel.loop.settle()
        else:
            self.kernel.step(ticks)
        self.settled = ticks is None
        for client in self.clients:
            client.arrive()

    # Who there is -----------------------------------------------------------------------------------

    @property
    def connected(self) -> list[Client]:
        return [client for client in self.clients if client.connection is not None]

    @property
    def talking(self) -> list[Client]:
        return [client for client in self.connected if client.opened and not client.closed]

    @property
    def lost(self) -> list[Client]:
        """Those that could come back."""
        return [client for client in self.clients if client.connection is None and client.token]

    def record(self, client: Client) -> Record:
        return self.account.sessions[client.session_id]

    # Coming and going -------------------------------------------------------------------------------

    @initialize(kinds=st.lists(WHO, max_size=4))
    def some_are_here(self, kinds: list[int]) -> None:
        for kind in kinds:
            self.arrive(count=1, kind=kind, glance=0, ticks=None)

    @precondition(lambda self: len(self.clients) < 12)
    @rule(count=st.integers(1, 4), kind=WHO, glance=st.integers(0, 34), ticks=TICKS)
    def arrive(self, count: int, kind: int, glance: int, ticks: int | None) -> None:
        """`glance`: which of them, if any, goes away again after as many rounds of the loop."""
        for number in range(count):
            client = Client(len(self.clients), KINDS[(kind + number) % len(KINDS)], self.account, self.kernel.hall)
            self.clients.append(client)
            connection = client.connect(self.kernel.host.open(client.terms), self.kernel.loop)
            if number + 1 == glance % 5:
                self.kernel.step(glance // 5)
                self.end(connection, "cancel")
        self.go(ticks)

    def end(self, connection: Connection, how: str) -> None:
        assert connection.task is not None
        if connection is connection.client.connections[-1]:
            connection.client.leave()
        if how == "cancel":
            connection.task.cancel()
        else:
            connection.crash.set()
        connection.gone = True

    @precondition(lambda self: self.connected)
    @rule(who=WHO, how=st.sampled_from(["cancel", "crash"]), ticks=TICKS)
    def leave(self, who: int, how: str, ticks: int | None) -> None:
        """From the queue, or from a session, which may outlive it."""
        client = self.connected[who % len(self.connected)]
        assert client.connection is not None
        self.end(client.connection, how)
        self.go(ticks)

    @rule(who=WHO, ticks=TICKS)
    def leave_in_a_hurry(self, who: int, ticks: int | None) -> None:
        """Whoever is on the way out already is cancelled once more."""
        leaving = [one for client in self.clients for one in client.connections if one.left and not one.done]
        for connection in leaving[who % len(leaving) :][:1] if leaving else []:
            self.end(connection, "cancel")
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, really=st.integers(0, 4), ticks=TICKS)
    def close(self, who: int, really: int, ticks: int | None) -> None:
        if not really:
            self.says(who, Close(reason="client"), ticks)

    @precondition(lambda self: self.lost)
    @rule(who=WHO, ticks=TICKS)
    def come_back(self, who: int, ticks: int | None) -> None:
        self.resume(self.lost[who % len(self.lost)], ticks)

    @precondition(lambda self: any(client.token for client in self.talking))
    @rule(who=WHO, ticks=TICKS)
    def come_instead(self, who: int, ticks: int | None) -> None:
        """A second connection, while there is one."""
        able = [client for client in self.talking if client.token]
        self.resume(able[who % len(able)], ticks)

    @precondition(lambda self: any(client.token for client in self.talking))
    @rule(who=WHO, lost=LOST, words=WORDS, rounds=ROUNDS, away_s=st.sampled_from([0.0, 0.0, 0.3, 2.0]), ticks=TICKS)
    def a_break(self, who: int, lost: int, words: int, rounds: int, away_s: float, ticks: int | None) -> None:
        """The last things that were sent are lost, the session goes on meanwhile, and its client comes back."""
        able = [client for client in self.talking if client.token]
        client = able[who % len(able)]
        assert client.connection is not None
        client.connection.lag = lost
        self.ask_for(client, words)
        self.kernel.flow(min(rounds, 3))
        self.go(None)
        if client.connection is not None:
            self.end(client.connection, "crash")
        self.go(None)
        self.kernel.flow(rounds)
        self.advance(away_s)
        self.resume(client, ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, words=WORDS, rounds=ROUNDS, ticks=TICKS)
    def a_client_stops_reading(self, who: int, words: int, rounds: int, ticks: int | None) -> None:
        client = self.talking[who % len(self.talking)]
        assert client.connection is not None
        self.stall(client.connection)
        self.ask_for(client, words)
        self.kernel.flow(rounds)
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, words=WORDS, ticks=TICKS)
    def an_answer_comes_all_at_once(self, who: int, words: int, ticks: int | None) -> None:
        """Up to more of it than there is room for in a session's mailbox."""
        self.ask_for(self.talking[who % len(self.talking)], words)
        think = self.kernel.stages["think"]
        for _ in range(2 * words):
            for job in think.busy:
                think.work(job)
        think.deliver(1000)
        self.go(ticks)

    def ask_for(self, client: Client, words: int) -> None:
        """An answer of so many words; 0 for none."""
        if words:
            self.kernel.mood.pieces, self.kernel.mood.samples = words, 450
            client.says(CreateResponse())
            self.go(None)

    def resume(self, client: Client, ticks: int | None, *, reply_lost: bool = False) -> None:
        entering = self.kernel.host.resume(client.session_id, token=client.token, seen=client.seen)
        connection = client.connect(entering, self.kernel.loop)
        self.kernel.step(1)
        record = self.account.sessions[client.session_id]
        if connection.port is None:
            self.account.expect(connection.error == "session_closed", f"a good token is refused: {connection.error}")
            self.account.expect(record.runner._lease.state is LeaseState.CLOSED, "the session is not over")
            client.token = ""
        else:
            self.account.expect(connection.port.wire == "as agreed", "what was agreed is forgotten")
            if reply_lost:
                self.end(connection, "crash")
            else:
                client.former_tokens.append(client.token)
                client.token = connection.port.token
        self.go(ticks)

    @precondition(lambda self: self.lost)
    @rule(who=WHO, ticks=TICKS)
    def come_back_in_vain(self, who: int, ticks: int | None) -> None:
        """The answer is lost, and the connection with it."""
        self.resume(self.lost[who % len(self.lost)], ticks, reply_lost=True)

    @precondition(lambda self: any(client.token for client in self.clients))
    @rule(who=WHO, kind=st.sampled_from(["forged", "spent", "future", "another's", "unknown"]))
    def come_wrongly(self, who: int, kind: str) -> None:
        """Nothing changes by it."""
        able = [client for client in self.clients if client.token]
        client, other = able[who % len(able)], able[(who + 1) % len(able)]
        record = self.record(client)
        session_id, token, seen = client.session_id, client.token, client.seen
        codes = {"session_closed", "resume_token_invalid"}
        match kind:
            case "forged":
                token += "x"
            case "spent" if client.spent:
                token = client.spent[-1]
            case "future":
                seen = record.runner._outbox.journal.sequence + 1
                codes = {"session_closed", "sequence_unknown"}
            case "another's" if other is not client:
                token = other.token
            case "unknown":
                session_id, codes = "sess_none", {"session_closed"}
            case _:
                return
        looked_at = [record.runner._lease, record.runner._outbox.journal]
        before = frozen(looked_at)
        with pytest.raises(ClientError) as caught:
            at_once(self.kernel.host.resume(session_id, token=token, seen=seen))
        assert caught.value.code in codes
        assert frozen(looked_at) == before

    @rule(who=WHO, ticks=TICKS)
    def a_former_connection_does_something(self, who: int, ticks: int | None) -> None:
        """It has no effect."""
        former = [
            (client, connection)
            for client in self.clients
            for connection in client.connections
            if connection.port is not None
            and client.session_id in self.account.sessions
            and connection.port.generation < self.record(client).generation
        ]
        if not former:
            return
        client, connection = former[who % len(former)]
        record = self.record(client)
        looked_at = [record.runner._lease, record.runner._outbox.journal, record.runner._core.conversation]
        before = frozen(looked_at)
        assert connection.port is not None
        assert not heard_at_once(connection.port.send(CreateResponse()))
        connection.port.acknowledge(10**9)
        assert frozen(looked_at) == before
        self.go(ticks)

    # What clients say -------------------------------------------------------------------------------

    def says(self, who: int, event: ClientEvent, ticks: int | None) -> None:
        if self.talking:
            self.talking[who % len(self.talking)].says(event)
            self.go(ticks)

    @precondition(lambda self: self.connected)
    @rule(who=WHO, ticks=TICKS)
    def write(self, who: int, ticks: int | None) -> None:
        """Also in the queue: there it waits for its session."""
        client = self.connected[who % len(self.connected)]
        text = f"t{client.number}.{len(client.typed)}"
        client.typed.append(text)
        self.account.typed(text)
        part = Part(kind="text", text=text)
        item = Item(item_id="", role="user", status="completed", parts=(part,))
        client.says(CreateItem(item=item, event_id=text))
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, rounds=ROUNDS, ticks=TICKS)
    def ask(self, who: int, rounds: int, ticks: int | None) -> None:
        self.says(who, CreateResponse(), ticks)
        self.kernel.flow(rounds)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, loud=st.integers(0, 8), quiet=st.integers(0, 9), rounds=ROUNDS, ticks=TICKS)
    def speak(self, who: int, loud: int, quiet: int, rounds: int, ticks: int | None) -> None:
        pcm = np.concatenate([np.ones(WINDOW * loud, np.int16), np.zeros(WINDOW * quiet, np.int16)])
        self.says(who, AppendAudio(pcm=pcm), ticks)
        self.kernel.flow(rounds)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, goes_on=st.booleans(), early=ROUNDS, rounds=ROUNDS, heard_s=st.floats(0, 1), ticks=TICKS)
    def a_turn(self, who: int, goes_on: bool, early: int, rounds: int, heard_s: float, ticks: int | None) -> None:
        """A pause, in which an answer is begun; then the user goes on, or has said all."""
        client = self.talking[who % len(self.talking)]
        for windows, level, until in ((5, 1, 3), (3, 0, 3), (0, 0, early), (4, int(goes_on), rounds), (9, 0, rounds)):
            client.says(AppendAudio(pcm=np.full(WINDOW * windows, level, np.int16)))
            self.go(None)
            self.kernel.flow(until)
        self.advance(heard_s)
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, rounds=ROUNDS, heard_s=st.floats(0, 1), how=st.sampled_from(["voice", "word", "break"]), ticks=TICKS)
    def an_answer_that_is_interrupted(self, who: int, rounds: int, heard_s: float, how: str, ticks: int | None) -> None:
        """By the user's voice, by the client's word, or by the network first and then by the voice."""
        client = self.talking[who % len(self.talking)]
        self.write(who=self.connected.index(client), ticks=None)
        client.says(CreateResponse())
        self.go(None)
        self.kernel.flow(rounds)
        self.advance(heard_s)
        if how == "break" and client.token and client.connection is not None:
            self.end(client.connection, "crash")
            self.advance(heard_s)
            self.resume(client, ticks)
        client.says(CancelResponse() if how == "word" else AppendAudio(pcm=np.ones(WINDOW * 3, np.int16)))
        self.go(ticks)
        self.kernel.flow(rounds)

    @precondition(lambda self: self.talking)
    @rule(
        who=WHO,
        event=st.sampled_from([CommitAudio(), ClearAudio(), CancelResponse(), CancelResponse(), CreateResponse()]),
        ticks=TICKS,
    )
    def signal(self, who: int, event: ClientEvent, ticks: int | None) -> None:
        self.says(who, event, ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, detection=st.sampled_from(DETECTIONS), text=st.booleans(), ticks=TICKS)
    def configure(self, who: int, detection: TurnDetection | None, text: bool, ticks: int | None) -> None:
        modality = "text" if text else "audio"
        self.says(who, Configure(settings=SessionSettings(turn_detection=detection, modality=modality)), ticks)  # type: ignore[arg-type]

    @precondition(lambda self: self.talking)
    @rule(who=WHO, item=WHO, verb=st.sampled_from(["retrieve", "delete", "truncate"]), share=WHO, ticks=TICKS)
    def on_an_item(self, who: int, item: int, verb: str, share: int, ticks: int | None) -> None:
        """On one that the client knows, the newest first, or on one that there is not."""
        client = self.talking[who % len(self.talking)]
        item_id = ["nowhere", *client.items][-1 - item % (len(client.items) + 1)]
        match verb:
            case "retrieve":
                client.says(RetrieveItem(item_id=item_id))
            case "delete":
                client.says(DeleteItem(item_id=item_id))
            case _:
                listener = self.record(client).listeners.get(item_id)
                sent_ms = listener.sent // 24 if listener is not None else 100
                client.says(TruncateItem(item_id=item_id, content_index=0, audio_end_ms=sent_ms * share // 6))
        self.go(ticks)

    @precondition(lambda self: any(client.terms.acknowledged for client in self.talking))
    @rule(who=WHO, share=WHO, ticks=TICKS)
    def played(self, who: int, share: int, ticks: int | None) -> None:
        able = [client for client in self.talking if client.terms.acknowledged]
        client = able[who % len(able)]
        if (listeners := self.record(client).listeners) is not None:
            for item_id, listener in list(listeners.items())[-1:]:
                client.says(Played(item_id=item_id, samples=listener.sent * share // 6))
        self.go(ticks)

    @precondition(lambda self: self.talking)
    @rule(who=WHO)
    def acknowledge(self, who: int) -> None:
        client = self.talking[who % len(self.talking)]
        connection = client.connection
        assert connection is not None
        assert connection.port is not None
        connection.port.acknowledge(client.seen)
        if self.record(client).runner._lease.owns(connection.port.generation):
            client.spent += client.former_tokens
            client.former_tokens.clear()
            with pytest.raises(ClientError):
                connection.port.acknowledge(self.record(client).runner._outbox.journal.sequence + 1)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, lag=LOST, reads=st.booleans(), ticks=TICKS)
    def the_network_changes(self, who: int, lag: int, reads: bool, ticks: int | None) -> None:
        """So much is on its way to a client, which may have stopped reading."""
        connection = self.talking[who % len(self.talking)].connection
        assert connection is not None
        connection.lag = lag
        if reads:
            connection.reads.set()
        else:
            self.stall(connection)
        self.go(ticks)

    def stall(self, connection: Connection) -> None:
        connection.reads.clear()
        connection.client.stalled = True

    # What engines do --------------------------------------------------------------------------------

    @rule(
        pieces=st.sampled_from([0, 1, 3, 3, 8, 60, 200]),
        samples=st.sampled_from([1, 800, 3000, 9000, 20_000]),
        sure=st.sampled_from([0.2, 0.96, 0.99]),
        second_thoughts=st.booleans(),
        deaf=st.booleans(),
        slow=st.booleans(),
    )
    def moods_change(
        self, pieces: int, samples: int, sure: float, second_thoughts: bool, deaf: bool, slow: bool
    ) -> None:
        mood = self.kernel.mood
        mood.slow = slow
        # Of more than a few pieces each is long enough that what may be sent ahead has room where it waits to be sent.
        mood.pieces, mood.samples, mood.sure = pieces, samples if pieces < 9 else 450, sure
        mood.second_thoughts, mood.deaf = second_thoughts, deaf and second_thoughts

    @rule(rounds=ROUNDS)
    def engines_work(self, rounds: int) -> None:
        self.kernel.flow(rounds)
        self.go(None)

    @rule(name=st.sampled_from(STAGES), steps=st.sampled_from([1, 2, 4, 500]), which=WHO)
    def an_engine_works(self, name: str, steps: int, which: int) -> None:
        """And what it says is on its way for a while."""
        stage = self.kernel.stages[name]
        for _ in range(steps):
            if busy := stage.busy:
                stage.work(busy[which % len(busy)])
        self.settled = False

    @rule(name=st.sampled_from(STAGES), count=st.sampled_from([1, 2, 4, 500]), ticks=TICKS)
    def something_arrives(self, name: str, count: int, ticks: int | None) -> None:
        self.kernel.stages[name].deliver(count)
        self.go(ticks)

    @rule(name=st.sampled_from(STAGES), which=WHO, everything=st.integers(0, 3), ticks=TICKS)
    def an_engine_crashes(self, name: str, which: int, everything: int, ticks: int | None) -> None:
        stage = self.kernel.stages[name]
        jobs = list(stage.jobs.values())
        for job in jobs if not everything else jobs[which % len(jobs) :][:1] if jobs else []:
            stage.crash(job)
        if which % 2:
            stage.deliver(1000)
        self.go(ticks)

    @rule(ticks=TICKS)
    def engines_speak_too_late(self, ticks: int | None) -> None:
        for stage in self.kernel.stages.values():
            stage.speak_too_late()
        self.go(ticks)

    @precondition(lambda self: self.account.sessions)
    @rule(who=WHO)
    def evict(self, who: int) -> None:
        """A conversation's prefix is taken away: its next turn reads it again, and nothing else comes of it."""
        sessions = self.account.sessions
        session_id = list(sessions)[-1 - who % len(sessions)]
        before = visible(sessions[session_id])
        table = self.kernel.prefixes.table
        evictions = table.store.counters["evictions"]
        gone = self.kernel.prefixes.evict(session_id)
        assert table.store.counters["evictions"] == evictions + gone
        assert visible(sessions[session_id]) == before
        with pytest.raises((StateError, UnknownState)):
            self.kernel.host.states.evict(StateKey(session_id, CONVERSATION))

    @rule(times=st.sampled_from([1, 1, 2, 5]))
    def engines_do_not_let_go(self, times: int) -> None:
        self.kernel.stubborn = times

    # Time, and the end --------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.1, 0.3, 0.3, 1.0, 1.0, 2.5, 4.9, GRACE_S, 20.0, 70.0]))
    def time(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.kernel.loop.advance(seconds)
        self.go(None)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, really=st.integers(0, 5), ticks=TICKS)
    def a_session_meets_a_bug(self, who: int, really: int, ticks: int | None) -> None:
        """It ends alone."""
        if not really:
            client = self.talking[who % len(self.talking)]
            self.record(client).spoilt = True
            self.says(who, ClearAudio(), ticks)

    @precondition(lambda self: not self.closing and self.clients)
    @rule(how=st.sampled_from([0] + [1] * 15), killed=st.booleans(), ticks=TICKS)
    def shut_down(self, how: int, killed: bool, ticks: int | None) -> None:
        if not how:
            self.shut(killed=killed)
            self.go(ticks)

    def shut(self, *, killed: bool) -> None:
        """Either way the host is closed; where something else of the server has failed, its task is cancelled too."""
        self.closing = True
        if killed:
            self.kernel.running.cancel()
        self.kernel.loop.call_soon(self.kernel.host.close)

    # What must hold -----------------------------------------------------------------------------------

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.account.wrong, self.account.wrong[0]

    @invariant()
    def the_books_agree(self) -> None:
        self.kernel.admission.check_integrity()
        assert len(self.kernel.admission) <= PLACES
        assert self.kernel.admission.waiting <= QUEUE
        failed = sum(record.failed for record in self.account.sessions.values())
        assert self.kernel.host.counters["session_failures"] == failed, "a session has failed that had no bug"

    @invariant()
    def bounds_hold(self) -> None:
        assert self.kernel.connector.nbytes <= CONNECTOR_BYTES
        assert len(self.kernel.orchestrator.core) <= REQUESTS
        for record in self.account.sessions.values():
            mailbox, journal = record.runner._mailbox, record.runner._outbox.journal
            assert len(mailbox._reports) <= BOUNDS["REPORTS"] + 1
            assert len(mailbox._events) <= EVENTS
            assert len(journal) <= BOUNDS["OUTBOX"] + BOUNDS["KEPT"] + 1
            assert journal.kept <= BOUNDS["KEPT"]
            assert journal.kept_bytes <= BOUNDS["KEPT_BYTES"]

    @invariant()
    def what_is_held_is_in_the_books(self) -> None:
        assert self.kernel.host.states.check_integrity() == self.kernel.prefixes.findings() == []
        held = {ref.session_id for ref in self.kernel.host.states.refs()}
        assert held == set(self.account.sessions) - self.kernel.let_go, "a conversation is not counted, or for ever"

    @invariant()
    def nobody_overtakes(self) -> None:
        arrived = [client.session_id for client in self.kernel.hall]
        admitted = self.kernel.admission.admitted
        assert [session_id for session_id in arrived if session_id in admitted] == list(admitted)

    @invariant()
    def everyone_receives_each_thing_once(self) -> None:
        for client in self.clients:
            client.check_received()

    @invariant()
    def history_is_what_was_heard(self) -> None:
        for record in self.account.sessions.values():
            if not record.runner._core.closed:
                self.account.check_history(record)

    @invariant()
    def places_are_neither_lost_nor_given_twice(self) -> None:
        if not self.settled:
            return
        kernel = self.kernel
        living = {
            session_id
            for session_id, record in self.account.sessions.items()
            if session_id not in kernel.released and session_id not in kernel.stuck
        }
        assert not [one for one in living if self.account.sessions[one].runner._core.closed]
        assert len(kernel.admission) == len(living) + len(kernel.stuck)
        waiting = [client for client in kernel.hall if client.waits]
        assert kernel.admission.waiting == len(waiting)
        assert not waiting or len(kernel.admission) == PLACES, "somebody waits for a place that is there"
        now = kernel.loop.time()
        for position, client in enumerate(waiting, start=1):
            last = client.read[-1]
            assert isinstance(last, Queued)
            assert last.position == position
            assert now - client.told_s <= REFRESH_S + 1e-6
            assert now - client.entered_s < WAIT_S
        requests = {fence for stage in kernel.stages.values() for fence in stage.jobs}
        assert requests <= set(kernel.orchestrator.core._requests), "an engine works for nobody"
        for session_id in living:
            record = self.account.sessions[session_id]
            assert record.on == (record.runner._lease.state is LeaseState.ATTACHED)

    @invariant()
    def connections_end_when_they_should(self) -> None:
        """Without a session of their own no sooner than that; all others at once, and they are told why."""
        for client in self.clients:
            for connection in client.connections:
                port = connection.port
                if port is None or client.session_id not in self.account.sessions:
                    continue
                record = self.record(client)
                if connection.done and not client.terms.resumable:
                    assert client.session_id in self.account.over, "it is let go while its session lives"
                if not self.settled or not connection.reads.is_set():
                    continue
                if port.generation < record.generation:
                    assert connection.done, "a former connection is kept"
                    if not connection.gone:
                        assert isinstance(connection.last, Closed)
                        assert connection.last.reason == "replaced" or connection.last is record.told[-1]
                if connection.gone and client.opened and client.terms.resumable:
                    assert connection.done, "it is kept though its session may outlive it"

    @invariant()
    def who_reads_is_not_called_slow(self) -> None:
        for client in self.clients:
            if client.read and isinstance(last := client.read[-1], Closed) and last.reason == "slow_reader":
                assert client.stalled, "it has read all that there was"

    # The end --------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Everything that is under way comes to its end."""
        kernel = self.kernel
        kernel.stubborn, kernel.mood.slow = min(kernel.stubborn, 3), False
        for client in self.clients:
            for connection in client.connections:
                connection.lag = 0
                connection.reads.set()
        for client in self.lost:
            if client.number % 2:
                self.resume(client, None)
        for _ in range(40):
            kernel.prefixes.let_go()
            kernel.flow(1000)
            self.advance(0.25)
            for client in self.talking:
                if client.terms.acknowledged:
                    for item_id, listener in self.record(client).listeners.items():
                        client.says(Played(item_id=item_id, samples=listener.sent))
            self.go(None)
            talking = [self.record(client) for client in self.talking]
            if not any(record.open for record in talking):
                break
        self.nothing_is_wrong()

    def teardown(self) -> None:
        if sys.exc_info()[0] is not None:
            self.kernel.close()
            return
        try:
            self.finish()
        finally:
            self.kernel.close()

    def finish(self) -> None:
        kernel = self.kernel
        self.go(None)
        self.calm_down()
        for client in self.talking:
            record = self.record(client)
            if record.closed or record.spoilt:
                continue
            assert not client.to_send, "something is never taken"
            if record.runner._core.answering.active_id is None:  # Else it is begun in a pause that lasts.
                assert kernel.connector.held(client.session_id) == 0, "bytes that nobody will ever read"
            assert not record.open, "a response that nothing will ever end"
            assert not client.open, "the client waits for the end of a response"
            assert client.items == [item.item_id for item in record.runner._core.conversation.items]
            client.check_received(everything=True)
            if record.restarted == 0:
                refused = {told.error.event_id for told in client.received if isinstance(told, Refused)}
                texts = [told.item.text for told in client.received if isinstance(told, ItemDone)]
                wanted = [text for text in client.typed if text not in refused]
                assert [text for text in texts if text in client.typed] == wanted, "input was lost"
        if len(self.clients) % 3 or self.closing:
            if not self.closing:
                self.shut(killed=len(self.clients) % 3 == 1)
            self.go(None)
        for client in self.clients:
            for connection in client.connections:
                assert connection.task is not None
                connection.task.cancel()
        self.advance(GRACE_S + 1)
        self.advance(100)
        kernel.loop.call_soon(kernel.host.close)
        self.go(None)
        for client in self.clients:
            for connection in client.connections:
                assert connection.done, "a connection was left"
        for record in self.account.sessions.values():
            assert record.closed, "a session has ended without a word"
        assert kernel.stuck == set()
        assert kernel.released >= set(self.account.sessions)
        kernel.assert_nothing_left()
        self.nothing_is_wrong()


TestKernel = KernelMachine.TestCase
EXAMPLES = max(600, settings.default.max_examples)
TestKernel.settings = settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None)
TestKernel = pytest.mark.timeout(60 + EXAMPLES)(TestKernel)
