"""The Python SDK: a session of the native protocol that survives its connections.

    async with connect("ws://127.0.0.1:8000/v1/duplex") as session:
        await session.add("Why is the sky blue?")
        await session.respond()
        async for event in session:
            ...

A connection that is lost is opened again, and the session resumed: what was missed comes, nothing comes twice, and what
the server had not taken is sent once more. Only a session that is over for good ends the iteration, with a TalkError
where that was not wished for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from duplex.audio.pcm import Samples, to_bytes
from duplex.client.backlog import Backlog, Sent
from duplex.client.backoff import Backoff
from duplex.client.inbox import Event, Inbox, decode
from duplex.client.socket import open_socket
from duplex.errors import TalkError
from duplex.protocol.native import PATH, VERSION, client, server
from duplex.protocol.native.item import NewItem
from duplex.protocol.native.media import MICROPHONE, Frame, pack
from duplex.protocol.native.settings import SettingsPatch

BACKLOG_BYTES = 4 << 20
"""What is held for a server that is away: 80 s of a microphone at 24 kHz."""

EVENTS = 1024
"""Events that may wait for the iteration; then the socket is not read, and the server waits."""

ACK_EVERY = 16
"""Messages after which the client says at the latest what has arrived."""

SILENT_BEATS = 3
"""Heartbeats that may go unanswered before the connection is taken to be lost."""


LEAVE_S = 2.0
"""Patience with the server's last word."""


_encoder = msgspec.json.Encoder()


def session_url(url: str) -> str:
    """Complete an address: http becomes ws, an absent path its default. Raises TalkError for no address."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.netloc:
        raise TalkError(f"{url} is not the address of a server; give one like ws://127.0.0.1:8000{PATH}")
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or PATH, parts.query, ""))


class Session:
    """One session; made by `connect`. One task may iterate while others send.

    Attributes:
        opened: what the server said when it began.
        queued: the newest that it said of the queue; None before that, and once it has begun.
        connections: how many there were so far.
        resumed_s: how long the newest resume took, from the first attempt to the server's word; None before any.
    """

    def __init__(
        self, *, url: str, api_key: str | None, opening: client.Open, backoff: Backoff, timeout_s: float
    ) -> None:
        self.connections = 0
        self.resumed_s: float | None = None
        self._url = url
        self._api_key = api_key
        self._opening = opening
        self._backoff = backoff
        self._timeout_s = timeout_s
        self.queued: server.Queued | None = None
        self._opened: server.Opened | None = None
        self._token = ""
        self._acked = 0
        self._inbox = Inbox()
        self._position = 0
        self._backlog = Backlog(max_bytes=BACKLOG_BYTES)
        self._progress: client.Played | None = None
        self._socket: ClientConnection | None = None
        self._sending = asyncio.Lock()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(EVENTS)
        self._over: TalkError | None = None
        self._closing = False
        self._leaving = False

    @property
    def opened(self) -> server.Opened:
        if self._opened is None:
            raise TalkError("the session has not begun yet")
        return self._opened

    @property
    def connected(self) -> bool:
        """Whether there is a connection now. Sending works without: it is done when there is one again."""
        return self._socket is not None

    @property
    def lost(self) -> TalkError | None:
        """Why the session is over; None while it is not, and where that was wished for."""
        return self._over

    # The four verbs -------------------------------------------------------------------------

    async def send_audio(self, samples: Samples) -> None:
        """update: the microphone goes on, int16 [n] at `terms.input_hz`."""
        step = self.opened.terms.input_hz // 2
        for start in range(0, len(samples), step):
            part = samples[start : start + step]
            number = self._backlog.number()
            frame = Frame(kind=MICROPHONE, sequence=number, timestamp=self._position, payload=to_bytes(part))
            self._position += len(part)
            await self._keep_and_send(Sent(sequence=number, message=pack(frame), audio=True))

    async def update(self, settings: SettingsPatch, *, id: str | None = None) -> None:
        """update: other settings, from the next turn on."""
        await self._command(client.Update(settings=settings, id=id))

    async def add(
        self,
        text: str,
        *,
        role: Literal["user", "assistant", "system"] = "user",
        item_id: str = "",
        after: str | None = None,
        id: str | None = None,
    ) -> None:
        """update: a message of text enters the conversation."""
        await self._command(client.Update(item=NewItem(role=role, text=text, item_id=item_id), after=after, id=id))

    async def signal(self, signal: client.AnySignal, *, id: str | None = None) -> None:
        """signal: something is to happen now."""
        await self._command(client.Signal(signal=signal, id=id))

    async def respond(self, options: client.Respond = client.Respond()) -> None:
        """signal: answer now."""
        await self.signal(options)

    async def commit(self) -> None:
        """signal: the user's turn ends here."""
        await self.signal(client.Commit())

    async def cancel(self) -> None:
        """signal: stop answering."""
        await self.signal(client.Cancel())

    async def close(self) -> None:
        """close: the session is over; the server's last word ends the iteration."""
        self._closing = True
        await self._command(client.Close())

    async def played(self, item_id: str, samples: int) -> None:
        """So much of an answer has been played. Only where the session was opened with acknowledged playback."""
        self._progress = client.Played(item_id=item_id, samples=samples)
        await self._say(self._progress)

    async def leave(self, running: asyncio.Task[None]) -> None:
        """Close the session if it is not over yet; waits 2 s at most for the server's last word."""
        self._leaving = True
        while not self._events.empty():  # Nobody will iterate any more, and the last word must find room.
            self._events.get_nowait()
        if not running.done():
            if self._over is None:
                await self.close()
            await asyncio.wait({running}, timeout=LEAVE_S)
            running.cancel()

    # Sending --------------------------------------------------------------------------------

    async def _command(self, message: client.Update | client.Signal | client.Close) -> None:
        number = self._backlog.number()
        numbered = msgspec.structs.replace(message, sequence=number)
        await self._keep_and_send(Sent(sequence=number, message=_encoder.encode(numbered).decode(), audio=False))

    async def _keep_and_send(self, sent: Sent) -> None:
        if self._over is not None:
            raise self._over
        self._backlog.keep(sent)
        await self._put(sent.message)

    async def _say(self, message: client.Ack | client.Played | client.Heartbeat) -> None:
        await self._put(_encoder.encode(message).decode())

    async def _put(self, message: str | bytes) -> None:
        async with self._sending:
            if self._socket is not None:
                try:
                    await self._socket.send(message)
                except ConnectionClosed:
                    self._socket = None  # Its reader notices too, and connects again.

    # Receiving ------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Every event, in order, each once.

        Raises:
            TalkError: the session was lost.
        """
        while (event := await self._events.get()) is not None:
            yield event
        if self._over is not None:
            raise self._over

    async def run(self, ready: asyncio.Event) -> None:
        """Hold a connection, and another when it is lost, until the session is over. `ready`: it has begun, or not."""
        try:
            while await self._connection(ready):
                pass
        except TalkError as error:
            self._over = error
        finally:
            ready.set()
            if not self._leaving:
                await self._events.put(None)

    async def _connection(self, ready: asyncio.Event) -> bool:
        """One connection from its beginning to its end; False where the session is over."""
        socket = await (self._first() if self._opened is None else self._again())
        self.connections += 1
        goes_on = False
        try:
            async with asyncio.TaskGroup() as tasks:
                beats = tasks.create_task(self._beat())
                ready.set()
                try:
                    goes_on = await self._read(socket)
                except TalkError as error:  # Out of a TaskGroup it would come as a group.
                    self._over = error
                beats.cancel()
        finally:
            self._socket = None
            socket.transport.abort()
        return goes_on

    async def _first(self) -> ClientConnection:
        socket = await open_socket(url=self._url, api_key=self._api_key, timeout_s=self._timeout_s)
        greeting = await self._greeted(socket, self._opening)
        while isinstance(greeting, server.Queued):  # It comes again every few seconds, for as long as one may wait.
            self.queued = greeting
            greeting = await self._answered(socket)
        self.queued = None
        if not isinstance(greeting, server.Opened):
            raise TalkError(f"the server at {self._url} opened no session: {_said(greeting)}")
        self._opened = greeting
        self._token = greeting.token
        await self._take(greeting)
        self._socket = socket
        await self._acknowledge()
        return socket

    async def _greeted(self, socket: ClientConnection, message: client.Open | client.Resume) -> server.AnyServerMessage:
        await socket.send(_encoder.encode(message).decode())
        return await self._answered(socket)

    async def _answered(self, socket: ClientConnection) -> server.AnyServerMessage:
        try:
            async with asyncio.timeout(self._timeout_s):
                return decode(await socket.recv())
        except (TimeoutError, ConnectionClosed):
            socket.transport.abort()
            raise _LostAgain(f"the server at {self._url} did not answer; is it busy?") from None

    async def _again(self) -> ClientConnection:
        """Resume, in as many attempts as the server's patience allows."""
        loop = asyncio.get_running_loop()
        lost_s = loop.time()
        terms = self.opened.terms
        attempt = 0
        while True:
            await asyncio.sleep(self._backoff.pause_s(attempt, random.random()))
            attempt += 1
            try:
                began_s = loop.time()
                socket = await self._resume()
            except TalkError as error:
                if not terms.grace_s or loop.time() - lost_s > terms.grace_s or isinstance(error, _Refused):
                    raise TalkError(f"the connection was lost, and the session with it: {error}") from None
                continue
            self.resumed_s = loop.time() - began_s
            return socket

    async def _resume(self) -> ClientConnection:
        if not self._token:
            raise _Refused("it was not opened to be resumed")
        socket = await open_socket(url=self._url, api_key=self._api_key, timeout_s=self._timeout_s)
        asked = client.Resume(
            version=VERSION, session_id=self.opened.session_id, token=self._token, seen=self._inbox.seen
        )
        greeting = await self._greeted(socket, asked)
        if isinstance(greeting, server.Error):
            socket.transport.abort()
            raise _Refused(greeting.message)
        if not isinstance(greeting, server.Resumed):
            socket.transport.abort()
            raise _Refused(_said(greeting))
        self._token = greeting.token
        self._backlog.confirm(greeting.taken)
        async with self._sending:  # Nothing new may overtake what is sent again.
            try:
                await socket.send(_encoder.encode(client.Ack(sequence=self._inbox.seen)).decode())
                for sent in self._backlog.unconfirmed():
                    await socket.send(sent.message)
                if self._progress is not None:
                    await socket.send(_encoder.encode(self._progress).decode())
            except ConnectionClosed:
                raise _LostAgain("it broke off again") from None
            self._socket = socket
        await self._offer(greeting)
        return socket

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.opened.terms.heartbeat_s)
            await self._acknowledge()
            await self._say(client.Heartbeat(at=loop.time()))

    async def _acknowledge(self) -> None:
        self._acked = self._inbox.seen
        await self._say(client.Ack(sequence=self._inbox.seen))

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
                self._backlog.confirm(taken)
                return True
            case server.Closed(reason=reason, message=why):
                if not (self._closing and reason == "client"):
                    self._over = TalkError(f"the session is over ({reason}): {why}")
            case _:
                pass
        await self._offer(self._inbox.message(message))
        return not isinstance(message, server.Closed)

    async def _offer(self, event: Event | None) -> None:
        if event is not None and not self._leaving:
            await self._events.put(event)


class _Refused(TalkError):
    """The server will not have the session resumed, however often it is asked."""


class _LostAgain(TalkError):
    """The connection broke off in the greeting."""


def _said(message: server.AnyServerMessage) -> str:
    return message.message if isinstance(message, server.Error | server.Closed) else type(message).__name__


@asynccontextmanager
async def connect(
    url: str,
    *,
    api_key: str | None = None,
    input_hz: Literal[16000, 24000] = 24000,
    playback: Literal["acknowledged", "reckoned"] = "reckoned",
    resumable: bool = True,
    settings: SettingsPatch | None = None,
    backoff: Backoff = Backoff(),
    timeout_s: float = 10.0,
) -> AsyncIterator[Session]:
    """Open a session, and close it at the end of the block.

    Args:
        url: the server's address; a missing path becomes ``/v1/duplex``.
        input_hz: rate of the audio that will be sent.
        playback: ``acknowledged`` if `Session.played` will be called: then the server sends no more than `ahead_ms` of
            audio that was not, and an interrupted answer's history is what was really heard.
        resumable: whether to go on after a lost connection.
        settings: patch of the server's own.
        timeout_s: for each connection to be made, and answered.

    Raises:
        TalkError: no server, a refusal, or no answer; one sentence with the remedy.
    """
    opening = client.Open(
        version=VERSION, input_hz=input_hz, playback=playback, resumable=resumable, settings=settings, id="open"
    )
    session = Session(url=session_url(url), api_key=api_key, opening=opening, backoff=backoff, timeout_s=timeout_s)
    ready = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(session.run(ready), name="duplex session")
            try:
                await ready.wait()
                if session.lost is not None:
                    raise session.lost
                yield session
            finally:
                await session.leave(running)
    except BaseExceptionGroup as group:
        # The task reports its losses to the session, so what is in the group came from the block alone.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
