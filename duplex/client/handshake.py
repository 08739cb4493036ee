"""How a connection of the native protocol begins: with `open` and a place in the queue, or with `resume`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from duplex.client.inbox import decode
from duplex.client.socket import open_socket
from duplex.errors import TalkError
from duplex.protocol.native import PATH, client, server

_encoder = msgspec.json.Encoder()


class SessionRefused(TalkError):
    """The server will not have the session resumed, however often it is asked."""


def session_url(url: str) -> str:
    """Complete an address: http becomes ws, an absent path its default. Raises TalkError for no address."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.netloc:
        raise TalkError(f"{url} is not the address of a server; give one like ws://127.0.0.1:8000{PATH}")
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or PATH, parts.query, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the server is, and how long it may take.

    Attributes:
        url: complete.
        timeout_s: for a connection to be made, and again for each of its first answers.
    """

    url: str
    api_key: str | None
    timeout_s: float

    async def open(
        self, opening: client.Open, queued: Callable[[server.Queued], None]
    ) -> tuple[ClientConnection, server.Opened]:
        """A connection with a session that has begun; `queued` is told each news of the queue.

        Raises:
            TalkError: no server, a refusal, or no answer; one sentence with the remedy.
        """
        socket, greeting = await self._greeted(opening)
        while isinstance(greeting, server.Queued):  # It comes again every few seconds, for as long as one may wait.
            queued(greeting)
            greeting = await self._answer(socket)
        if isinstance(greeting, server.Opened):
            return socket, greeting
        socket.transport.abort()
        raise TalkError(f"the server at {self.url} opened no session: {_said(greeting)}")

    async def resume(self, asked: client.Resume) -> tuple[ClientConnection, server.Resumed]:
        """A connection with a session that goes on.

        Raises:
            SessionRefused: it is over.
            TalkError: this attempt has failed; another one may not.
        """
        socket, greeting = await self._greeted(asked)
        if isinstance(greeting, server.Resumed):
            return socket, greeting
        socket.transport.abort()
        raise SessionRefused(_said(greeting))

    async def _greeted(self, message: client.Open | client.Resume) -> tuple[ClientConnection, server.AnyServerMessage]:
        socket = await open_socket(url=self.url, api_key=self.api_key, timeout_s=self.timeout_s)
        await socket.send(_encoder.encode(message).decode())
        return socket, await self._answer(socket)

    async def _answer(self, socket: ClientConnection) -> server.AnyServerMessage:
        try:
            async with asyncio.timeout(self.timeout_s):
                return decode(await socket.recv())
        except (TimeoutError, ConnectionClosed):
            socket.transport.abort()
            raise TalkError(f"the server at {self.url} did not answer; is it busy?") from None


def _said(message: server.AnyServerMessage) -> str:
    return message.message if isinstance(message, server.Error | server.Closed) else type(message).__name__
