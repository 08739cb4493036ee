"""Clients come, go, come back, and come instead of themselves; in every order, and with the wrong papers."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from duplex.errors import ClientError
from duplex.session.events import (
    Close,
    CreateResponse,
)
from duplex.session.port import Terms
from tests.kernel.client import Client, at_once, heard_at_once
from tests.kernel.ground import LOST, ROUNDS, TICKS, WHO, WORDS, Ground
from tests.session.frozen import frozen

KINDS = [
    Terms(),
    Terms(resumable=True, wire="as agreed"),
    Terms(resumable=True, wire="as agreed"),
    Terms(resumable=True, acknowledged=True, wire="as agreed"),
]


class Comings(Ground):
    """Rules of connections."""

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
