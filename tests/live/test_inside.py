"""The real server in the test's own event loop, where tasks, threads and objects that are left can be seen."""

from __future__ import annotations

import argparse
import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest

from duplex.audio.pcm import Samples
from duplex.config import from_arguments
from duplex.server import Server
from duplex.session.runner import SessionRunner
from duplex.transport.app import build_app
from duplex.transport.connection import Connection
from tests.live.caller import calling
from tests.live.conftest import next_turn
from tests.live.leaving import STATES, come_and_go, vanish
from tests.transport.fakes import Settings, serving

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]


def threads() -> int:
    """Threads of this process, those of the models' own libraries as well."""
    return len(list(Path("/proc/self/task").iterdir()))


def held(server: Server) -> dict[str, int]:
    """What the sessions of a server hold in it; empty when nothing."""
    counts = {
        "sessions": server.sessions,
        "requests": len(server.orchestrator.core),
        "payloads": len(server.connector),
        "bytes": server.connector.nbytes,
        **server.pipeline.active(),
    }
    return {name: count for name, count in counts.items() if count}


async def emptied(server: Server, resting: set[asyncio.Task[object]]) -> None:
    """Wait until nothing is held and no task runs but those at rest."""
    deadline = time.monotonic() + 8
    while (left := held(server)) or asyncio.all_tasks() - resting:
        assert time.monotonic() < deadline, f"left: {left}, {asyncio.all_tasks() - resting}"
        await asyncio.sleep(0.02)


async def test_nothing_is_left_in_a_server(spoken: dict[str, Samples]) -> None:
    tasks_before, threads_before, python_threads_before = asyncio.all_tasks(), threads(), threading.active_count()
    config = from_arguments(argparse.Namespace())
    async with asyncio.TaskGroup() as group:
        server = Server(config, group)
        group.create_task(server.host.run())
        await server.start()
        application = build_app(host=server.host, info=server, settings=config.http, web=config.http.web_path)
        settings = Settings(max_message_bytes=config.http.max_message_bytes, slow_reader_s=config.http.slow_reader_s)
        async with serving(application, settings=settings) as (at, _uvicorn):
            url = f"http://{at}/"
            resting = asyncio.all_tasks()
            async with calling(url, max_output_tokens=4) as caller:
                await STATES["committed"](caller, spoken["book"])
                await caller.done()
            await emptied(server, resting)
            threads_at_rest = threads()

            for state in STATES.values():
                await vanish(url, state, spoken["book"], reset=True)
                await emptied(server, resting)
            await asyncio.gather(*(come_and_go(url, reset=reset) for reset in (False, True, False, True)))
            await emptied(server, resting)
            await next_turn(url)
            await emptied(server, resting)
            assert threads() <= threads_at_rest
            gc.collect()
            kept = [thing for thing in gc.get_objects() if isinstance(thing, SessionRunner | Connection)]
            assert not kept, f"{len(kept)} sessions are over and still in memory"
        server.host.close()
    await server.stop()
    assert asyncio.all_tasks() == tasks_before
    assert threading.active_count() == python_threads_before
    # One thread of a model library's own is begun with the first server and stays for the next.
    assert threads() <= threads_before + 1
