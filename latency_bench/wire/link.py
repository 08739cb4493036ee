"""A WebSocket to do things with that a client with manners does not do."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import cast
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

from duplex.errors import TalkError

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST and forgets what is unsent."""

_SMALL_SEGMENT_BYTES = 536


class LinkLost(Exception):
    """The connection is over. `code`: of the server's close frame; None where there was none."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"{code} {reason}" if code is not None else "without a word")
        self.code = code
        self.reason = reason


class LinkRefused(TalkError):
    """The handshake was answered with another `status` than 101."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Link:
    """One connection; made by `Link.open`. One task may receive while another sends."""

    def __init__(self, socket_: ClientConnection) -> None:
        self._socket = socket_

    @classmethod
    async def open(cls, url: str, *, receive_buffer_bytes: int | None = None, timeout_s: float = 10.0) -> Link:
        """Connect and upgrade.

        Args:
            url: ``ws://host:port/path``.
            receive_buffer_bytes: of the kernel, to be slow early; None for its own choice.

        Raises:
            TalkError: no server, or, as LinkRefused, a refusal.
        """
        address = urlsplit(url)
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            # The sender's buffer is sized by its segments, and those of the loopback hold a second of audio each.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SMALL_SEGMENT_BYTES)
        sock.setblocking(False)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().sock_connect(sock, (address.hostname, address.port))
            return cls(
                await connect(
                    url,
                    sock=sock,
                    compression=None,
                    max_size=16 << 20,
                    max_queue=1,  # What is not asked for is not read.
                    ping_interval=None,
                    open_timeout=timeout_s,
                    close_timeout=1.0,
                    proxy=None,
                )
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise LinkRefused(f"the server at {url} refuses ({status}); see its log", status=status) from None
        except (OSError, InvalidHandshake, InvalidMessage, EOFError) as error:
            sock.close()
            raise TalkError(f"the server at {url} cannot be reached ({error}); see its log") from None

    async def send(self, message: str | bytes) -> None:
        """Text or binary; waits while the server does not take it. Raises LinkLost."""
        try:
            await self._socket.send(message)
        except ConnectionClosed as end:
            raise _lost(end) from None

    async def receive(self) -> str | bytes:
        """The next message. Raises LinkLost."""
        try:
            return await self._socket.recv()
        except ConnectionClosed as end:
            raise _lost(end) from None

    async def close(self) -> None:
        """Say goodbye; waits 1 s at most."""
        await self._socket.close()

    def finish(self) -> None:
        """Say nothing any more: FIN, without a close frame."""
        transport = self._socket.transport
        if not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()

    def reset(self) -> None:
        """Be gone: RST."""
        transport = self._socket.transport
        if (sock := transport.get_extra_info("socket")) is not None:
            cast(socket.socket, sock).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        transport.abort()

    def abort(self) -> None:
        """Be gone: FIN where all was read, RST where not."""
        self._socket.transport.abort()


def _lost(end: ConnectionClosed) -> LinkLost:
    return LinkLost(end.rcvd.code, end.rcvd.reason) if end.rcvd is not None else LinkLost(None, "")
