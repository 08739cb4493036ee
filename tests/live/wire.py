"""A WebSocket client without manners: bytes as the test wants them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn
from urllib.parse import urlsplit

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def client_frame(opcode: int, payload: bytes, *, final: bool = True, mask: bool = True) -> bytes:
    """One frame (RFC 6455, section 5.2), masked with zeros, which changes nothing."""
    length, bit = len(payload), 0x80 if mask else 0
    head = bytes([(0x80 if final else 0) | opcode])
    if length < 126:
        head += bytes([bit | length])
    elif length < 1 << 16:
        head += bytes([bit | 126]) + length.to_bytes(2, "big")
    else:
        head += bytes([bit | 127]) + length.to_bytes(8, "big")
    return head + (bytes(4) if mask else b"") + payload


class Wire:
    """One TCP connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def handshake(
        cls, url: str, headers: Mapping[str, str], *, receive_buffer_bytes: int | None = None
    ) -> AsyncIterator[Wire]:
        """Connected, and a request to upgrade sent, of which `headers` replace some."""
        address = urlsplit(url)
        assert address.hostname is not None
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address.hostname, address.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=8192)
        try:
            lines = [f"{name}: {value}" for name, value in {"Host": address.netloc, **UPGRADE, **headers}.items()]
            writer.write("\r\n".join(["GET /v1/realtime HTTP/1.1", *lines, "", ""]).encode())
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    @classmethod
    @asynccontextmanager
    async def session(cls, url: str, *, receive_buffer_bytes: int | None = None) -> AsyncIterator[Wire]:
        """With a session whose first events have been read."""
        async with cls.handshake(url, {}, receive_buffer_bytes=receive_buffer_bytes) as wire:
            assert await wire.status() == 101
            await wire.until(b"conversation.created")
            yield wire

    async def status(self) -> int:
        """Of the server's answer to the handshake; its head is read."""
        async with asyncio.timeout(5):
            head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1])

    async def send(self, data: bytes) -> None:
        """Send bytes as they are; waits while the server does not take them."""
        self._writer.write(data)
        await self._writer.drain()

    async def insist(self, data: bytes) -> NoReturn:
        """Send the same again and again, and never read; raises ConnectionError once the server has enough of it."""
        async with asyncio.timeout(15):
            while True:
                await self.send(data)
                await asyncio.sleep(0.001)

    async def frame(self) -> tuple[int, bytes]:
        """The server's next frame: opcode and payload."""
        first, length = await self._reader.readexactly(2)
        if length >= 126:
            length = int.from_bytes(await self._reader.readexactly(2 if length == 126 else 8), "big")
        return first & 0x0F, await self._reader.readexactly(length)

    async def until(self, word: bytes) -> None:
        """Read up to a message that has `word` in it."""
        async with asyncio.timeout(20):
            while word not in (await self.frame())[1]:
                pass

    async def closed(self) -> int:
        """Read up to the server's close frame; its code."""
        async with asyncio.timeout(5):
            while True:
                opcode, payload = await self.frame()
                if opcode == 8:
                    return int.from_bytes(payload[:2], "big")
