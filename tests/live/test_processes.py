"""Every stage in a process of its own: killed in the middle of a turn, and the conversation goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duplex.client.session import Session, connect
from duplex.protocol.native import server as said
from duplex.protocol.native.client import Respond
from tests.live.process import Process, serving

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live, pytest.mark.timeout(170)]

STAGES = {"listen", "endpoint", "hear", "think", "talk", "code2wav"}


def processes(server: Process) -> dict[str, int]:
    """By stage: the process that runs it now."""
    found = {}
    for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        try:
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        except FileNotFoundError:
            continue
        found |= {word.removeprefix("--name="): int(child) for word in words if word.startswith("--name=")}
    return found


def alive(pids: dict[str, int]) -> list[str]:
    """Those of these stages whose process is still there."""
    return [stage for stage, pid in pids.items() if Path(f"/proc/{pid}").exists()]


async def until_done(events: AsyncIterator[object]) -> said.ResponseDone:
    async for event in events:
        if isinstance(event, said.ResponseDone):
            return event
    raise AssertionError("the session ended without an answer")


async def answer(session: Session, events: AsyncIterator[object], text: str) -> said.ResponseDone:
    await session.add(text)
    await session.respond(Respond(max_output_tokens=12))
    return await until_done(events)


async def test_each_stage_may_be_killed_and_the_session_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, "--placement", "process") as server:
        assert processes(server).keys() == STAGES
        url = server.url.replace("http", "ws") + "v1/duplex"
        async with connect(url) as session:
            events = aiter(session)
            assert (await answer(session, events, "What is bread?")).response.status != "failed"
            for stage in ("think", "code2wav", "listen"):
                before = processes(server)
                await session.add("Tell me a long story about a river.")
                await session.respond()
                async for event in events:
                    if isinstance(event, said.ResponseText):
                        break
                os.kill(before[stage], signal.SIGKILL)
                began_s = time.monotonic()
                if stage == "listen":
                    await session.cancel()
                await until_done(events)
                # It is there again before anybody would ask a second time; until then requests wait for it.
                while (await answer(session, events, "What is bread?")).response.status == "failed":
                    assert time.monotonic() - began_s < 10, server.log()
                now = processes(server)
                assert now[stage] != before[stage]
                assert {one: pid for one, pid in now.items() if one != stage} == {
                    one: pid for one, pid in before.items() if one != stage
                }, "nothing else was touched"
            assert session.connections == 1
        assert await server.until(lambda: not server.left(), within_s=8), server.left()
        left = processes(server)
        assert server.stop() == 0
        assert alive(left) == []


async def test_they_die_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, "--placement", "process") as server:
        children = processes(server)
        os.kill(server.pid, signal.SIGKILL)
        assert await server.until(lambda: not alive(children), within_s=10)
