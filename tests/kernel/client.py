"""A client and its connections: what it has received, in order, and what it can conclude from that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from duplex.errors import AdmissionRefused, ClientError
from duplex.session.events import ClientEvent
from duplex.session.notices import (
    Closed,
    Interrupted,
    ItemAdded,
    ItemDeleted,
    Notice,
    Opened,
    Queued,
    ResponseCreated,
    ResponseDone,
    Snapshot,
)
from duplex.session.port import Audio, Entry, LeasedPort, Terms
from tests.kernel.account import Account


class Crash(Exception):
    """A transport has failed."""


@dataclass(eq=False)
class Connection:
    """One connection, as long as a client keeps it.

    Attributes:
        wire: what has left the server and has not arrived; `lag`: how much of it stays there.
        reads: whether the transport takes anything now.
        last: what was read last.
        left: its client has given it up; `gone`: and has cut it.
    """

    client: Client
    port: LeasedPort | None = None
    task: asyncio.Task[None] | None = None
    wire: deque[Entry] = field(default_factory=deque)
    lag: int = 0
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    crash: asyncio.Event = field(default_factory=asyncio.Event)
    last: Notice | Audio | None = None
    error: str = ""
    left: bool = False
    gone: bool = False

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()


@dataclass(eq=False)
class Client:
    """Somebody who wants a session, over all connections.

    Attributes:
        stalled: whether it has ever stopped reading.
        read: all that its transports have read; `received`: all that has arrived since it was told the whole state.
        to_send: what no connection has got rid of yet; it is sent again by the next.
        token: the newest that it holds; `spent`: those that are good no more.
        silenced: newest epoch that it knows to be interrupted.
        items: ids of the conversation, in order, as it knows them.
    """

    number: int
    terms: Terms
    account: Account
    hall: list[Client]
    connections: list[Connection] = field(default_factory=list)
    session_id: str = ""
    refused: bool = False
    stalled: bool = False
    entered_s: float = -1.0
    told_s: float = 0.0
    read: list[Notice | Audio] = field(default_factory=list)
    received: list[Notice | Audio] = field(default_factory=list)
    to_send: deque[ClientEvent] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    token: str = ""
    spent: list[str] = field(default_factory=list)
    former_tokens: list[str] = field(default_factory=list)
    seen: int = 0
    silenced: int = -1
    items: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    typed: list[str] = field(default_factory=list)
    _begun: bool = False
    _ended: bool = False

    # Where it stands --------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection | None:
        """The newest, unless it has been left or has ended."""
        last = self.connections[-1] if self.connections else None
        return last if last is not None and not last.left and not last.done and last.port is not None else None

    @property
    def opened(self) -> bool:
        return self._begun

    @property
    def closed(self) -> bool:
        return self._ended

    @property
    def waits(self) -> bool:
        """Whether it is in the queue."""
        first = self.connections[0] if self.connections else None
        here = first is not None and first.port is not None and not first.left and not first.done
        return here and not self.opened and not self.closed

    # Connections ------------------------------------------------------------------------------------

    def connect(self, entering: AbstractAsyncContextManager[LeasedPort], loop: asyncio.AbstractEventLoop) -> Connection:
        """Open a connection, and give up the one before."""
        self.leave()
        connection = Connection(self)
        connection.reads.set()
        self.connections.append(connection)
        connection.task = loop.create_task(self.carry(connection, entering))
        return connection

    def leave(self) -> None:
        """Whatever is on its way on the newest connection does not arrive any more."""
        for connection in self.connections[-1:]:
            connection.wire.clear()
            connection.left = True

    async def carry(self, connection: Connection, entering: AbstractAsyncContextManager[LeasedPort]) -> None:
        """What a transport does: a reader, a sender, and an end that may come from either side."""
        now = asyncio.get_running_loop().time()
        try:
            async with entering as port:
                connection.port = port
                if self.entered_s < 0:
                    self.session_id, self.entered_s, self.told_s = port.session_id, now, now
                    self.hall.append(self)
                if connection.left:
                    return
                async with asyncio.TaskGroup() as tasks:
                    helpers = (
                        tasks.create_task(self._send(connection, port)),
                        tasks.create_task(_fail(connection.crash)),
                    )
                    await self._read(connection, port)
                    for helper in helpers:
                        helper.cancel()
        except AdmissionRefused:
            self.refused = True
        except ClientError as error:
            connection.error = error.code
        except BaseExceptionGroup as group:
            _, rest = group.split(Crash)
            if rest is not None:
                raise rest from None

    async def _read(self, connection: Connection, port: LeasedPort) -> None:
        while True:
            await connection.reads.wait()
            entry = await port.next()
            if entry is None:
                return
            connection.last = entry.told
            self.told_s = asyncio.get_running_loop().time()
            if not connection.left:
                self._check_sent(entry)
                self.read.append(entry.told)
                self._begun = self._begun or isinstance(entry.told, Opened)
                self._ended = self._ended or (isinstance(entry.told, Closed) and entry.told.reason != "replaced")
                connection.wire.append(entry)

    def _check_sent(self, entry: Entry) -> None:
        account, told = self.account, entry.told
        if isinstance(told, Queued):
            account.expect(not self.opened and entry.sequence == 0, "a position after the session had begun")
        elif isinstance(told, Audio):
            made_under = account.makings.maker(told)
            account.expect(not account.is_aborted(made_under), f"audio of {made_under} leaves the server, and is over")

    async def _send(self, connection: Connection, port: LeasedPort) -> None:
        while True:
            while not self.to_send:
                self.news.clear()
                await self.news.wait()
            if not await port.send(self.to_send[0]):
                return
            self.to_send.popleft()

    def says(self, event: ClientEvent) -> None:
        self.to_send.append(event)
        self.news.set()

    # What arrives -----------------------------------------------------------------------------------

    def arrive(self, *, all_of_it: bool = False) -> None:
        """What is not held up on the wire arrives."""
        for connection in self.connections:
            while len(connection.wire) > (0 if all_of_it else connection.lag):
                self._take(connection, connection.wire.popleft())

    def _take(self, connection: Connection, entry: Entry) -> None:
        told, account = entry.told, self.account
        if isinstance(told, Closed) and told.reason == "replaced":
            return
        if entry.sequence:
            account.expect(entry.sequence > self.seen, f"{entry.sequence} comes after {self.seen}")
            self.seen = entry.sequence
        match told:
            case Queued():
                return
            case Opened():
                assert connection.port is not None
                self.token = connection.port.token
            case Snapshot(items=items, response=response):
                self.received.clear()
                self.items = [item.item_id for item in items]
                self.open = {response.response_id} if response is not None else set()
                return
            case Audio():
                made_under = account.makings.maker(told)
                account.expect(made_under.epoch > self.silenced, "sound of an answer that the client knows to be cut")
            case Interrupted(epoch=epoch):
                self.silenced = max(self.silenced, epoch)
            case ItemAdded(item=item, previous_item_id=previous):
                place = self.items.index(previous) + 1 if previous in self.items else 0
                self.items.insert(place, item.item_id)
            case ItemDeleted(item_id=item_id):
                self.items.remove(item_id)
            case ResponseCreated(response=response):
                account.expect(not self.open, "the client knows of two responses at once")
                self.open.add(response.response_id)
            case ResponseDone(response=response):
                account.expect(response.response_id in self.open, "the client is told of the end of nothing")
                self.open.discard(response.response_id)
            case _:
                pass
        self.received.append(told)

    def check_received(self, *, everything: bool = False) -> None:
        """What it has is what was told, in order; what is missing in between is sound that was interrupted.

        With `everything` nothing is on its way any more.
        """
        record = self.account.sessions.get(self.session_id)
        if record is None:
            return
        if isinstance(last_word := record.told[-1], Closed) and last_word.reason == "slow_reader":
            return  # It is told that, and what there was no room for is lost.
        place = {id(one): index for index, one in enumerate(record.told)}
        places = [place.get(id(one), -1) for one in self.received]
        assert places == sorted(set(places)), "something was told twice, or out of order, or by nobody"
        first, last = (places[0], places[-1]) if places else (record.restarted, record.restarted)
        assert first >= record.restarted or not everything
        for index in sorted(set(range(first, len(record.told) if everything else last)) - set(places)):
            missed = record.told[index]
            assert isinstance(missed, Audio), f"{missed} was lost"
            assert self.account.is_aborted(missed.fence), "sound was lost"


async def _fail(crash: asyncio.Event) -> None:
    await crash.wait()
    raise Crash


def at_once(entering: AbstractAsyncContextManager[LeasedPort]) -> LeasedPort:
    """Enter what has nothing to wait for; raises what it raises."""
    with suppress(StopIteration):
        entering.__aenter__().send(None)  # type: ignore[attr-defined]
    raise AssertionError("it was let in")


def heard_at_once(sending: Coroutine[Any, Any, bool]) -> bool:
    """Whether an event was taken; not so where it still waits."""
    try:
        sending.send(None)
    except StopIteration as sent:
        return bool(sent.value)
    sending.close()
    return False
