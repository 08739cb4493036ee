"""A server with more sessions than prefix caches: nothing is lost but time, and what is held is what the books say."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
import websockets

from tests.live.caller import Caller, calling
from tests.live.process import Process, serving

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]

ATTACHED = 200


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Two prefix caches, and room for many sessions that say nothing."""
    arguments = ("--prefix-caches", "2", "--oversubscribe", "500", "--queue-length", "0")
    with serving(tmp_path_factory.mktemp("narrow"), *arguments) as process:
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log()


def seen(process: Process, path: str) -> dict[str, object]:
    page: dict[str, object] = httpx.get(f"{process.url}{path}", trust_env=False).json()
    return page


def proven(process: Process) -> bool:
    return seen(process, "v1/state")["findings"] == []


async def test_three_conversations_on_two_caches(narrow: Process) -> None:
    names = ("Otto", "Berta", "Cesar")
    async with AsyncExitStack() as stack:
        callers: dict[str, Caller] = {
            name: await stack.enter_async_context(calling(narrow.url, output_modalities=["text"], max_output_tokens=8))
            for name in names
        }
        for turn in range(3):
            for name, caller in callers.items():
                answer = await caller.ask(f"My name is {name}, and this is question {turn}. Who am I?")
                assert answer["status"] in ("completed", "incomplete")
                assert answer["usage"]["output_tokens"] > 0
        census = seen(narrow, "v1/sessions")["data"]
        assert isinstance(census, list)
        kept = [ref for session in census for ref in session["holds"] if ref["kind"] == "kv"]
        histories = [ref for session in census for ref in session["holds"] if ref["kind"] == "conversation"]
        assert len(kept) == 2
        assert all(ref["owner"] == "think" and ref["version"] and ref["length"] > 20 for ref in kept)
        assert [(ref["length"], ref["rebuild_s"]) for ref in histories] == [(6, None)] * 3
        assert proven(narrow)
        metrics = narrow.metrics()
        assert metrics['duplex_events_total{kind="state_evictions"}'] >= 4
        assert metrics['duplex_events_total{kind="state_rebuilt_tokens"}'] > 100
        assert metrics["duplex_prefix_caches"] == 2
    assert await narrow.until(lambda: not narrow.left())
    assert narrow.metrics()["duplex_prefix_caches"] == narrow.metrics()["duplex_conversation_bytes"] == 0
    assert proven(narrow)


async def test_a_conversation_may_be_too_long(narrow: Process) -> None:
    """With truncation it goes on; without, its answer fails with a sentence, and all of it is still there."""
    session = {"output_modalities": ["text"], "max_output_tokens": 4, "instructions": "Be brief."}
    async with calling(narrow.url, truncation="disabled", **session) as caller:
        story = "The sea was calm and the ship went on and on. " * 250
        failed = await caller.ask(story)
        assert failed["status"] == "failed"
        message = failed["status_details"]["error"]["message"]
        assert "truncation is disabled" in message
        await caller.update(truncation={"type": "retention_ratio", "retention_ratio": 0.5})
        answer = await caller.ask("What was calm?")
        assert answer["status"] in ("completed", "incomplete")
        assert answer["usage"]["input_tokens"] < 200
        assert proven(narrow)


def resident_kb(process: Process) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1])


def cpu_s(process: Process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_attached_sessions_that_send_nothing_cost_little(narrow: Process) -> None:
    await asyncio.sleep(1)
    empty_kb = resident_kb(narrow)
    async with AsyncExitStack() as stack:
        for _ in range(ATTACHED):
            url = narrow.url.replace("http", "ws") + "v1/duplex"
            socket = await stack.enter_async_context(websockets.connect(url, ping_interval=None, proxy=None))
            await socket.send(json.dumps({"type": "open", "version": 1, "resumable": False}))
            assert json.loads(await socket.recv())["type"] == "opened"
        began_s, before_s = asyncio.get_running_loop().time(), cpu_s(narrow)
        await asyncio.sleep(5)
        share = (cpu_s(narrow) - before_s) / (asyncio.get_running_loop().time() - began_s)
        each_kb = (resident_kb(narrow) - empty_kb) / ATTACHED
        assert narrow.metrics()["duplex_sessions"] == ATTACHED
        assert each_kb <= 200
        assert share <= 0.2
        assert proven(narrow)
        print(f"{each_kb:.0f} KB each, {100 * share:.1f} % of a core together")
    assert await narrow.until(lambda: not narrow.left(), within_s=20)
