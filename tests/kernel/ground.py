"""What the rules of the kernel machine stand on: the server, its clients, and how a story goes on."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from duplex.session.events import (
    ClientEvent,
    CreateResponse,
)
from duplex.session.lease import LeaseState
from tests.kernel.client import Client, Connection
from tests.kernel.kernel import Kernel
from tests.kernel.record import Record

TICKS = st.sampled_from([None, None, None, 0, 1, 2, 5])
"""Rounds of the loop after something has happened; None for as many as it takes."""

WHO = st.integers(0, 7)
ROUNDS = st.sampled_from([0, 1, 2, 3, 5, 60, 400])
LOST = st.sampled_from([0, 0, 1, 3, 6, 30])
"""Things that are on their way: up to more than the journal keeps."""

WORDS = st.sampled_from([0, 0, 3, 90, 200])
"""Pieces of an answer: up to more than may wait to be sent."""


class Ground(RuleBasedStateMachine):
    """One server, its engines, and clients that come and go."""

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

    # Who there is ----------------------------------------------------------------------------------

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

    # What the rules are made of --------------------------------------------------------------------

    def end(self, connection: Connection, how: str) -> None:
        assert connection.task is not None
        if connection is connection.client.connections[-1]:
            connection.client.leave()
        if how == "cancel":
            connection.task.cancel()
        else:
            connection.crash.set()
        connection.gone = True

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

    def says(self, who: int, event: ClientEvent, ticks: int | None) -> None:
        if self.talking:
            self.talking[who % len(self.talking)].says(event)
            self.go(ticks)

    def stall(self, connection: Connection) -> None:
        connection.reads.clear()
        connection.client.stalled = True

    def advance(self, seconds: float) -> None:
        self.kernel.loop.advance(seconds)
        self.go(None)

    def shut(self, *, killed: bool) -> None:
        """Either way the host is closed; where something else of the server has failed, its task is cancelled too."""
        self.closing = True
        if killed:
            self.kernel.running.cancel()
        self.kernel.loop.call_soon(self.kernel.host.close)
