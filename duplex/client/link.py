"""The connections of a session, one after another: each that is lost is followed by another, which resumes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from duplex.client.backoff import Backoff
from duplex.client.handshake import Address, SessionRefused
from duplex.client.inbox import Event, Inbox, decode
from duplex.client.outbound import Outbound
from duplex.errors import TalkError
from duplex.protocol.native import VERSION, client, server

EVENTS = 1024
"""Events that may wait to be taken; then the socket is not read, and the server waits."""

ACK_EVERY = 16
"""Messages after which the client says at the latest what has arrived."""

Waits = Callable[[server.Queued], None]

SILENT_BEATS = 3
"""Heartbeats that may go unanswered before the connection is taken to be lost."""


class Link:
    """Holds a session open until it is over for good.

    Args:
        address: of the server.
        opening: what the session begins with.
        backoff: pauses between attempts to resume.
        waits: told each news of the queue.

    Attributes:
        outbound: what is sent.
        events: what has come, in order, each once; None is the end.
        queued: the newest that the server said of the queue; None before that, and once the session has begun.
        connections: how many there were so far.
        resumed_s: how long the newest resume took, from the first attempt to the server's word; None before any.
        over: why the session is over; None while it is not, and where that was wished for.
        closing: whether the client wants the session to end.
    """

    def __init__(self, *, address: Address, opening: client.Open, backoff: Backoff, waits: Waits) -> None:
        self.outbound = Outbound()
        self.events: asyncio.Queue[Event | None] = asyncio.Queue(EVENTS)
        self.queued: server.Queued | None = None
        self.connections = 0
        self.resumed_s: float | None = None
        self.over: TalkError | None = None
        self.closing = False
        self._address = address
        self._opening = opening
        self._backoff = backoff
        self._waits = waits
        self._inbox = Inbox()
        self._opened: server.Opened | None = None
        self._token = ""
        self._acked = 0
        self._deaf = False
        self._socket: ClientConnection | None = None

    @property
    def opened(self) -> server.Opened:
        """What the server said when the session began. Raises TalkError where it has not."""
        if self._opened is None:
            raise TalkError("the session has not begun yet")
        return self._opened

    @property
    def silenced_bytes(self) -> int:
        """Audio that came of an answer after it had been interrupted."""
        return self._inbox.silenced_bytes

    def deafen(self) -> None:
        """Nobody takes events any more, and the last word must find room."""
        self._deaf = True
        while not self.events.empty():
            self.events.get_nowait()

    async def run(self, ready: asyncio.Event) -> None:
        """Hold a connection, and another when it is lost, until the session is over. `ready`: it has begun, or not."""
        try:
            while await self._connection(ready):
                pass
        except TalkError as error:
            self.over = error
        finally:
            ready.set()
            if not self._deaf:
                await self.events.put(None)

    async def _connection(self, ready: asyncio.Event) -> bool:
        """One connection from its beginning to its end; False where the session is over."""
        socket = await (self._begin() if self._opened is None else self._again())
        self._socket = socket
        self.connections += 1
        goes_on = False
        try:
            async with asyncio.TaskGroup() as tasks:
                beats = tasks.create_task(self._beat())
                ready.set()
                try:
                    goes_on = await self._read(socket)
                except TalkError as error:  # Out of a TaskGroup it would come as a group.
                    self.over = error
                beats.cancel()
        finally:
            self.outbound.lose()
            socket.transport.abort()
        return goes_on

    async def _begin(self) -> ClientConnection:
        socket, opened = await self._address.open(self._opening, self._wait)
        self.queued = None
        self._opened = opened
        self._token = opened.token
        await self._take(opened)
        self.outbound.begin(socket)
        await self._acknowledge()
        return socket

    def _wait(self, queued: server.Queued) -> None:
        self.queued = queued
        self._waits(queued)

    async def _again(self) -> ClientConnection:
        """Resume, in as many attempts as the server's patience allows."""
        loop = asyncio.get_running_loop()
        lost_s = loop.time()
        grace_s = self.opened.terms.grace_s
        attempt = 0
        while True:
            await asyncio.sleep(self._backoff.pause_s(attempt, random.random()))
            attempt += 1
            try:
                began_s = loop.time()
                socket = await self._resume()
            except TalkError as error:
                if not grace_s or loop.time() - lost_s > grace_s or isinstance(error, SessionRefused):
                    raise TalkError(f"the connection was lost, and the session with it: {error}") from None
                continue
            self.resumed_s = loop.time() - began_s
            return socket

    async def _resume(self) -> ClientConnection:
        if not self._token:
            raise SessionRefused("it was not opened to be resumed")
        seen = self._inbox.seen
        asked = client.Resume(version=VERSION, session_id=self.opened.session_id, token=self._token, seen=seen)
        socket, resumed = await self._address.resume(asked)
        self._token = resumed.token
        if not await self.outbound.resume(socket, seen=seen, taken=resumed.taken):
            raise TalkError("it broke off again")
        await self._offer(resumed)
        return socket

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.opened.terms.heartbeat_s)
            await self._acknowledge()
            await self.outbound.say(client.Heartbeat(at=loop.time()))

    async def _acknowledge(self) -> None:
        self._acked = self._inbox.seen
        await self.outbound.say(client.Ack(sequence=self._inbox.seen))

    async def _read(self, socket: ClientConnection) -> bool:
        """Take what comes; True where the connection is lost, False where the session is over."""
        patience_s = SILENT_BEATS * self.opened.terms.heartbeat_s
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    received = await socket.recv()
            except (TimeoutError, ConnectionClosed):
                return True
            if isinstance(received, bytes):
                await self._offer(self._inbox.frame(received))
            elif not await self._take(decode(received)):
                return False
            if self._inbox.seen - self._acked >= ACK_EVERY:
                await self._acknowledge()

    async def _take(self, message: server.AnyServerMessage) -> bool:
        """One message; False where it is the last."""
        match message:
            case server.Heartbeat(taken=taken):
                self.outbound.confirm(taken)
                return True
            case server.Closed(reason=reason, message=why):
                if not (self.closing and reason == "client"):
                    self.over = TalkError(f"the session is over ({reason}): {why}")
            case _:
                pass
        await self._offer(self._inbox.message(message))
        return not isinstance(message, server.Closed)

    async def _offer(self, event: Event | None) -> None:
        if event is not None and not self._deaf:
            await self.events.put(event)
