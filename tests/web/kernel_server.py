"""The server's own transports and sessions over scripted engines, for what the page and a real session do together.

Its ears and its voice are a test's: `/_kernel/speak` says whether the user is speaking, and each answer is twelve words
of 0.2 s, a sine. `/_kernel/drop` breaks every connection, `/_kernel/occupy` takes places, `/_kernel/state` shows the
sessions' histories, and `/_kernel/reset` ends everything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from duplex.connector.payload import Payload, Pcm, Speech, Text, Voiced
from duplex.transport.serve import ABORT, uvicorn_config
from tests.session.engines import Say
from tests.session.world import World, world
from tests.transport.fakes import Info, Settings, app

HERE = Path(__file__).parent
WORDS = ["One", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve."]
WORD = 4800
"""Samples: 0.2 s, and whole periods of 440 Hz."""

PIECES = 4
PLACES = 4


@dataclass(kw_only=True)
class Kernel:
    """What a test does to the server from outside of its protocols."""

    speaking: bool = False
    here: World | None = None
    occupied: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    cuts: dict[int, Any] = field(default_factory=dict)

    def hears(self, payload: Payload, say: Say) -> None:
        assert isinstance(payload, Pcm)
        window = len(payload.samples)
        say(Speech(start=payload.start, window=window, probabilities=(float(self.speaking),)))

    @property
    def world(self) -> World:
        assert self.here is not None
        return self.here

    async def speak(self, request: Request) -> Response:
        self.speaking = (await request.json())["on"]
        return JSONResponse({})

    async def drop(self, _request: Request) -> Response:
        for cut in list(self.cuts.values()):
            cut()
        return JSONResponse({})

    async def occupy(self, request: Request) -> Response:
        await self.occupied.aclose()
        self.occupied = contextlib.AsyncExitStack()
        for _ in range((await request.json())["places"]):
            await self.occupied.enter_async_context(self.world.host.open())
        return JSONResponse({})

    async def reset(self, _request: Request) -> Response:
        self.speaking = False
        await self.occupied.aclose()
        for held in list(self.world.host._sessions.values()):
            held.runner.close("client")
        async with asyncio.timeout(5):
            while len(self.world.host.admission):  # noqa: ASYNC110 - nobody is told any more
                await asyncio.sleep(0.01)
        self.world.host.counters.clear()
        return JSONResponse({})

    async def state(self, _request: Request) -> Response:
        cores = [held.runner._core for held in self.world.host._sessions.values()]
        histories = [
            [
                {"id": item.item_id, "status": item.status, "text": item.text, "audio_ms": item.parts[0].audio_ms}
                for item in core.conversation.items
            ]
            for core in cores
        ]
        counters = dict(self.world.host.counters)
        return JSONResponse({"histories": histories, "counters": counters, "connected": len(self.cuts)})


def counts(_payload: Payload, say: Say) -> None:
    """The language model."""
    start = 0
    for number, word in enumerate(WORDS):
        text = word if not number else f" {word}"
        say(Text(text=text, start=start))
        start += len(text)


def sings(payload: Payload, say: Say) -> None:
    """The voice: each word in pieces of 50 ms."""
    assert isinstance(payload, Text)
    wave = 0.3 * np.sin(2 * np.pi * 440 * np.arange(WORD) / 24_000)
    pcm = (wave * 32767).astype(np.int16)
    for piece, samples in enumerate(np.split(pcm, PIECES), 1):
        end = payload.start + len(payload.text) * piece // PIECES
        say(Voiced(samples=samples, rate_hz=24_000, text_end=end))


class Cuttable:
    """Keeps how each connection can be broken, as a network does it: without a word."""

    def __init__(self, inner: ASGIApp, kernel: Kernel) -> None:
        self._inner = inner
        self._kernel = kernel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._inner(scope, receive, send)
            return
        self._kernel.cuts[id(scope)] = scope["extensions"][ABORT]["abort"]
        try:
            await self._inner(scope, receive, send)
        finally:
            del self._kernel.cuts[id(scope)]


async def serve(port: int) -> None:
    kernel = Kernel()
    async with world(
        capacity=PLACES, queue_length=2, listen=kernel.hears, think=counts, code2wav=sings, mailbox_events=256
    ) as here:
        kernel.here = here
        routes = [
            Route("/_kernel/speak", kernel.speak, methods=["POST"]),
            Route("/_kernel/drop", kernel.drop, methods=["POST"]),
            Route("/_kernel/occupy", kernel.occupy, methods=["POST"]),
            Route("/_kernel/reset", kernel.reset, methods=["POST"]),
            Route("/_kernel/state", kernel.state),
            Mount("/_stub", StaticFiles(directory=HERE / "browser")),
            Mount("/", app(here.host, info=Info())),  # type: ignore[arg-type]
        ]
        served = Cuttable(Starlette(routes=routes), kernel)
        config = uvicorn_config(app=served, settings=Settings(), shutdown_s=2.0, host="127.0.0.1", port=port)
        await uvicorn.Server(config).serve()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
