"""The queue of a whole server, with its models: one place, two who want it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from duplex.client.call import call
from duplex.client.events import Event
from latency_bench.wire.server import running

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]


async def test_the_second_waits_is_told_so_and_is_let_in(model_path: Any) -> None:
    model_path("smollm2/q4_1.gguf")
    arguments = ("--max-sessions", "1", "--queue-length", "1", "--log-level", "warning")
    told: list[tuple[str, int | None]] = []

    def listen(event: Event, _now: float) -> None:
        told.append((event.type, event.position))

    async with asyncio.timeout(50), running(arguments=arguments) as server:
        base = server.url.replace("ws", "http", 1).removesuffix("/realtime")
        async with httpx.AsyncClient(trust_env=False) as http:
            leaving = asyncio.Event()
            inside = asyncio.Event()

            async def first() -> None:
                async with call(url=server.url) as going:
                    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
                    await going.send({"type": "conversation.item.create", "item": item})
                    await going.send({"type": "response.create"})
                    assert await going.until(
                        lambda: any(turn.done_s for turn in going.conversation.turns), timeout_s=20
                    )
                    inside.set()
                    await leaving.wait()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(first())
                await inside.wait()
                waiting = tasks.create_task(second(server.url, listen))
                while not told:  # noqa: ASYNC110 - there is no event to wait for from outside
                    await asyncio.sleep(0.01)
                assert told == [("duplex.queue.updated", 1)]
                census = (await http.get(f"{base}/sessions")).json()
                active, queued = census["data"]
                assert (active["state"], queued["state"], queued["position"]) == ("active", "queued", 1)
                assert min(active["used_s"][stage] for stage in ("think", "talk", "code2wav")) > 0
                assert active["used_s"]["hear"] == 0
                assert active["nbytes"]["host"] > 100_000
                assert {ref["kind"] for ref in active["holds"]} >= {"conversation"}
                assert "all 1 sessions" in census["refusal"].lower()
                full = await http.get(f"{base}/realtime")
                assert full.status_code == 503
                assert int(full.headers["retry-after"]) >= 1
                assert full.json()["rate_limits"][0]["limit"] == 1
                leaving.set()
                await waiting
            assert ("session.created", None) in told
            left = (await http.get(f"{base}/sessions")).json()
            assert [entry for entry in left["data"] if entry["state"] != "active"] == []


async def second(url: str, listen: Any) -> None:
    async with call(url=url, listener=listen, timeout_s=20):
        pass
