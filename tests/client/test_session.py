"""The SDK against real sessions on a real socket: cut, resumed, replaced, refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from duplex.client.session import Session, Speech, connect
from duplex.protocol.native import server
from tests.session.engines import voices
from tests.session.world import World, world
from tests.transport.fakes import app, running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def served(**how: object) -> AsyncIterator[tuple[str, World]]:
    async with world(**how) as here, running(app(here.host)) as at:  # type: ignore[arg-type]
        yield f"ws://{at}/v1/duplex", here
        await here.over()


async def until(session: Session, kind: type) -> list[object]:
    seen: list[object] = []
    async with asyncio.timeout(10):
        async for event in session:
            seen.append(event)
            if isinstance(event, kind):
                return seen
    raise AssertionError(seen)


async def test_it() -> None:
    async with served(code2wav=voices(2, 2400)) as (url, here), connect(url) as session:
        await session.add("What time is it?")
        await session.respond()
        seen = await until(session, server.ResponseDone)
        print([type(x).__name__ for x in seen])
        assert sum(len(x.pcm) for x in seen if isinstance(x, Speech)) == 9600


async def test_cut() -> None:
    async with served(code2wav=voices(8, 2400)) as (url, here), connect(url) as session:
        await session.add("What time is it?")
        await session.respond()
        await until(session, Speech)
        session._socket.transport.abort()
        seen = await until(session, server.ResponseDone)
        print([type(x).__name__ for x in seen], session.resumed_s)
