"""Real sockets and clients without manners: what they do is answered, ends in time, and is no fault of the server's."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from duplex.transport.serve import SessionHttp, SessionWebSocket
from tests.transport.fakes import Host, Settings, app, running, serving

pytestmark = pytest.mark.anyio

UPGRADE = (
    "Host: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
PING = "GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"


@asynccontextmanager
async def opened(at: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection to the server."""
    address, port = at.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes up to the end of the connection."""
    async with asyncio.timeout(3):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/v1/realtime", "X-Long: " + "x" * 10_000 + "\r\n", 431),
        ("/v1/realtime", "X-Many: x\r\n" * 200, 431),
        ("/v1/realtime?model=" + "x" * 10_000, "", 414),
    ],
    ids=["a long header", "many headers", "a long address"],
)
async def test_a_handshake_that_is_too_large_is_answered(path: str, header: str, status: int) -> None:
    async with serving(app()) as (at, server):
        async with opened(at) as (reader, writer):
            writer.write(f"GET {path} HTTP/1.1\r\n{UPGRADE}{header}\r\n".encode())
            assert (await rest(reader)).startswith(f"HTTP/1.1 {status} ".encode())
        assert not server.server_state.connections


@pytest.mark.parametrize(
    ("before", "beginning"),
    [
        ("", ""),
        ("", "GET"),
        ("", "GET / HTTP/1.1\r\nHost: here\r\n"),
        (PING, "GET"),
        ("", "POST /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1"),
    ],
    ids=["nothing", "a word", "half a head", "a second one", "half a body"],
)
async def test_a_request_that_is_never_finished_ends_with_its_connection(
    before: str, beginning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionHttp, "request_s", 0.1)
    async with serving(app()) as (at, server):
        async with opened(at) as (reader, writer):
            writer.write(before.encode())
            if before:
                await reader.readuntil(b"ok")
            writer.write(beginning.encode())
            await rest(reader)
        assert not server.server_state.connections


async def test_what_has_arrived_in_time_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionHttp, "request_s", 0.05)
    host = Host()
    async with running(app(host)) as at, opened(at) as (answers, idle), opened(at) as (reader, writer):
        idle.write(PING.encode())
        assert b"200" in await answers.readline()
        writer.write(f"GET /v1/realtime HTTP/1.1\r\n{UPGRADE}\r\n".encode())
        assert b"101" in await reader.readline()
        await asyncio.sleep(0.15)
        assert host.open_sessions == 1
        idle.write(PING.encode())
        await answers.readuntil(b"ok")
        await answers.readuntil(b"ok")


async def test_text_that_is_no_utf8_is_not_logged_as_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async with running(app()) as at, opened(at) as (reader, writer):
        writer.write(f"GET /v1/realtime HTTP/1.1\r\n{UPGRADE}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x82" + bytes(4) + b"\xff\xfe")
        assert (await rest(reader)).endswith(b"\x88\x02" + (1007).to_bytes(2, "big"))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_breach_by_a_client_that_does_not_read_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionWebSocket, "linger_s", 0.2)
    host = Host()
    settings = Settings(slow_reader_s=30)
    async with serving(app(host, settings=settings), settings=settings) as (at, server):
        address, port = at.split(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((address, int(port)))
            deaf.sendall(f"GET /v1/realtime HTTP/1.1\r\n{UPGRADE}\r\n".encode())
            await host.until(lambda: bool(server.server_state.connections) and bool(host.ports))
            (connection,) = server.server_state.connections
            connection.transport.write(bytes(64 << 20))  # type: ignore[union-attr]
            deaf.sendall(b"\x83\x80" + bytes(4))
            await host.until(lambda: not server.server_state.connections)
    assert host.open_sessions == 0
