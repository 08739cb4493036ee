"""A connection and its ends, against a server that only listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from duplex.errors import TalkError
from latency_bench.wire.link import Link, LinkLost, LinkRefused


class Listener:
    """Echoes, and notes how a connection has ended: the close code that came, or None where none did."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self.url = ""
        self.ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def gate(self, connection: ServerConnection, _request: Request) -> Response | None:
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "full") if self.refuse else None

    async def serve(self, socket: ServerConnection) -> None:
        try:
            while True:
                message = await socket.recv()
                if message == "leave":
                    await socket.close(1013, "no room")
                await socket.send(message)
        except ConnectionClosed as end:
            self.ended.set_result(end.rcvd.code if end.rcvd is not None else None)


@asynccontextmanager
async def listening(*, refuse: bool = False) -> AsyncIterator[Listener]:
    listener = Listener(refuse=refuse)
    async with serve(listener.serve, "127.0.0.1", 0, process_request=listener.gate, close_timeout=0.2) as server:
        listener.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1/duplex"
        yield listener


async def goodbye(link: Link) -> None:
    await link.close()


async def fin(link: Link) -> None:
    link.finish()


async def rst(link: Link) -> None:
    link.reset()


async def gone(link: Link) -> None:
    link.abort()


@pytest.mark.parametrize(("end", "code"), [(goodbye, 1000), (fin, None), (rst, None), (gone, None)])
def test_each_end_is_what_it_is_called(end: Callable[[Link], Awaitable[None]], code: int | None) -> None:
    async def both() -> int | None:
        async with listening() as listener:
            link = await Link.open(listener.url, receive_buffer_bytes=4096)
            await link.send("hello")
            assert await link.receive() == "hello"
            await end(link)
            async with asyncio.timeout(2):
                ended = await listener.ended
            link.abort()
            return ended

    assert asyncio.run(both()) == code


def test_the_servers_close_is_told_with_its_code() -> None:
    async def both() -> None:
        async with listening() as listener:
            link = await Link.open(listener.url)
            await link.send("leave")
            with pytest.raises(LinkLost) as lost:
                await link.receive()
            assert (lost.value.code, lost.value.reason) == (1013, "no room")

    asyncio.run(both())


def test_a_refusal_has_its_status_and_no_server_is_a_sentence() -> None:
    async def both() -> str:
        async with listening(refuse=True) as listener:
            with pytest.raises(LinkRefused) as refused:
                await Link.open(listener.url)
            assert refused.value.status == 503
        return listener.url

    url = asyncio.run(both())
    with pytest.raises(TalkError, match="cannot be reached"):
        asyncio.run(Link.open(url))
