"""The native protocol over real sockets and real sessions, spoken by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from duplex.protocol.native.media import AGAIN, MICROPHONE, SPEECH, Frame, pack, unpack
from duplex.transport.channel import MAX_REFUSED
from duplex.transport.native import connection, endpoint
from duplex.transport.native.refusal import MAX_TEXT_BYTES
from tests.session.engines import voices
from tests.session.world import WINDOW, World, world
from tests.transport.fakes import Info, Settings, app, running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def served(*, settings: Settings | None = None, **how: Any) -> AsyncIterator[tuple[str, World]]:
    async with world(**how) as here, running(app(here.host, settings=settings), settings=settings) as at:  # type: ignore[arg-type]
        yield f"ws://{at}/v1/duplex", here
        await here.over()


async def say(client: ClientConnection, type_: str, **rest: Any) -> None:
    await client.send(json.dumps({"type": type_, **rest}))


async def heard(client: ClientConnection) -> dict[str, Any] | Frame:
    async with asyncio.timeout(5):
        message = await client.recv()
    return unpack(message) if isinstance(message, bytes) else json.loads(message)


async def until(client: ClientConnection, type_: str) -> list[Any]:
    """Everything up to the first message of a type."""
    seen: list[Any] = []
    while True:
        seen.append(await heard(client))
        if isinstance(seen[-1], dict) and seen[-1]["type"] == type_:
            return seen


async def opened(client: ClientConnection, **rest: Any) -> dict[str, Any]:
    await say(client, "open", version=1, **rest)
    greeting = await heard(client)
    assert isinstance(greeting, dict)
    assert greeting["type"] == "opened", greeting
    return greeting


async def ended(client: ClientConnection) -> tuple[list[Any], int]:
    """What is said until the server closes, and the code."""
    seen: list[Any] = []
    try:
        while True:
            seen.append(await heard(client))
    except websockets.ConnectionClosed as over:
        return seen, over.rcvd.code if over.rcvd is not None else 1006


def numbers(seen: list[Any]) -> list[int]:
    return [one.sequence if isinstance(one, Frame) else one["sequence"] for one in seen]


async def ask(client: ClientConnection, text: str = "What time is it?") -> None:
    await say(client, "update", item={"role": "user", "text": text})
    await say(client, "signal", signal={"kind": "respond"})


# Handshakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status", "ready"),
    [
        ({}, 401, True),
        ({"Authorization": "Bearer k", "Origin": "https://evil.example"}, 403, True),
        ({"Authorization": "Bearer k"}, 503, False),
    ],
)
async def test_who_may_not_come_in_is_told_so_before_the_upgrade(
    headers: dict[str, str], status: int, ready: bool
) -> None:
    async with running(app(info=Info(ready=ready), settings=Settings(api_key="k"))) as at:
        with pytest.raises(websockets.InvalidStatus) as caught:
            await connect(f"ws://{at}/v1/duplex", additional_headers=headers)
        assert caught.value.response.status_code == status


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ('{"type":"open","version":2}', "version_unsupported"),
        ('{"type":"heartbeat"}', "open_first"),
        ("nonsense", "invalid_json"),
        (b"\x01" * 30, "open_first"),
        ('{"type":"open","version":1,"input_hz":8000}', "invalid_message"),
        ('{"type":"resume","version":1,"session_id":"sess_none","token":"t"}', "session_closed"),
    ],
)
async def test_a_bad_beginning_is_explained_and_ends(first: str | bytes, code: str) -> None:
    async with served() as (url, _here), connect(url) as client:
        await client.send(first)
        seen, closed = await ended(client)
        assert [one["code"] for one in seen] == [code]
        assert closed == 1008


async def test_who_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_S", 0.05)
    async with served() as (url, _here), connect(url) as client:
        seen, closed = await ended(client)
        assert (seen[0]["code"], closed) == ("open_first", 1008)


async def test_a_full_server_says_when_to_come_again() -> None:
    async with served(capacity=1) as (url, _here), connect(url) as first:
        await opened(first)
        async with connect(url) as second:
            await say(second, "open", version=1)
            seen, closed = await ended(second)
            assert (seen[0]["code"], closed) == ("server_full", 1013)
            assert seen[0]["retry_after_s"] > 0
        await say(first, "close")
        seen, closed = await ended(first)
        assert (seen[-1]["type"], seen[-1]["reason"], closed) == ("closed", "client", 1000)


# A session ------------------------------------------------------------------------------------


async def test_a_spoken_turn() -> None:
    async with served(code2wav=voices(1, 2400)) as (url, _here), connect(url) as client:
        greeting = await opened(client, input_hz=16000, settings={"instructions": "Be brief."})
        assert greeting["terms"]["input_hz"] == 16_000
        assert greeting["terms"]["max_message_bytes"] == MAX_TEXT_BYTES
        for number in range(20):
            pcm = np.full(WINDOW, 1000 if number < 10 else 0, "<i2")
            await client.send(pack(Frame(kind=MICROPHONE, sequence=number + 1, payload=pcm.tobytes())))
        seen = await until(client, "response_done")
        kinds = [one["type"] if isinstance(one, dict) else "frame" for one in seen]
        assert kinds[:2] == ["updated", "speech_started"]
        assert numbers(seen) == list(range(2, len(seen) + 2))
        frames = [one for one in seen if isinstance(one, Frame)]
        created = next(one for one in seen if isinstance(one, dict) and one["type"] == "response_created")
        assert {frame.epoch for frame in frames} == {created["response"]["epoch"]}
        assert [frame.timestamp for frame in frames] == [0, 2400]
        assert all(frame.kind == SPEECH and not frame.again for frame in frames)
        await say(client, "heartbeat", at=1.5)
        assert await heard(client) == {"type": "heartbeat", "at": 1.5, "taken": 20}


async def test_nothing_is_taken_twice() -> None:
    async with served() as (url, _here), connect(url) as client:
        await opened(client)
        item = {"role": "user", "text": "Once."}
        for number in (1, 1, 2, 1):
            await say(client, "update", sequence=number, item=item)
        await say(client, "signal", sequence=3, signal={"kind": "clear"})
        seen = await until(client, "cleared")
        assert [one["type"] for one in seen] == ["item_added", "item_done"] * 2 + ["cleared"]


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ('{"type":"dance","id":"e"}', "unknown_message", "type"),
        ('{"type":"update","id":"e"}', "invalid_message", None),
        ('{"type":"update","id":"e","settings":{"speed":9}}', "invalid_message", "settings.speed"),
        ('{"type":"update","id":"e","settings":{"voice":"nobody"}}', "invalid_value", "settings.voice"),
        ('{"type":"update","id":"e","settings":{"turn_detection":{"eagerness":"low"}}}', "invalid_value", None),
        ('{"type":"signal","id":"e","signal":{"kind":"cancel"}}', "response_cancel_not_active", None),
        ('{"type":"signal","id":"e","signal":{"kind":"jump"}}', "invalid_message", None),
        ('{"type":"open","id":"e","version":1}', "already_open", None),
        ('{"type":"ack","sequence":999}', "sequence_unknown", "sequence"),
        ('{"type":"played","item_id":"i","samples":1}', "playback_reckoned", None),
        ("[1]", "invalid_message", None),
        ('{"type":"update","item":{"role":"user","text":"' + "x" * MAX_TEXT_BYTES + '"}}', "message_too_long", None),
        (b"\x00", "invalid_frame", None),
        (pack(Frame(kind=SPEECH, payload=b"")), "invalid_frame", None),
        (pack(Frame(kind=MICROPHONE, payload=bytes(2 * 24_001))), "frame_too_long", None),
    ],
)
async def test_a_mistake_is_answered_and_the_session_goes_on(
    message: str | bytes, code: str, param: str | None
) -> None:
    async with served() as (url, _here), connect(url) as client:
        await opened(client)
        await client.send(message)
        error = await heard(client)
        assert isinstance(error, dict)
        assert (error["type"], error["code"]) == ("error", code)
        assert param is None or error["param"] == param
        assert error["id"] == ("e" if isinstance(message, str) and '"id":"e"' in message else None)
        assert error["message"].endswith(".")
        assert error["sequence"] == 2, "it is of the session, and can be sent again"
        await say(client, "signal", signal={"kind": "clear"})
        await until(client, "cleared")


async def test_a_flood_of_mistakes_ends_the_connection() -> None:
    async with served() as (url, _here), connect(url) as client:
        await opened(client)
        for _ in range(MAX_REFUSED):
            await client.send("x")
        assert (await ended(client))[1] == 1008


async def test_who_is_silent_too_long_is_taken_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "HEARTBEAT_S", 0.05)
    async with served() as (url, here), connect(url) as client:
        await opened(client)
        seen, code = await ended(client)
        assert (seen, code) == ([], 1006)
        assert len(here.host.admission) == 1, "the session waits"


async def test_acknowledged_playback_holds_the_server_back() -> None:
    async with served(code2wav=voices(10, 2400)) as (url, _here), connect(url) as client:
        greeting = await opened(client, playback="acknowledged")
        assert greeting["terms"]["ahead_ms"] == 500
        await ask(client)
        frames: list[Frame] = []
        item_id, played = "", 0
        while True:
            try:
                async with asyncio.timeout(0.1):
                    message = await client.recv()
            except TimeoutError:
                assert sum(frame.samples for frame in frames) - played == 12_000, "it waits to be told"
                played += 4800
                await say(client, "played", item_id=item_id, samples=played)
                continue
            if isinstance(message, bytes):
                frames.append(unpack(message))
                continue
            told = json.loads(message)
            item_id = told.get("item_id", item_id)
            if told["type"] == "response_done":
                break
        assert sum(frame.samples for frame in frames) == 20 * 2400


# Resuming -------------------------------------------------------------------------------------


async def test_a_cut_connection_is_resumed_where_it_was() -> None:
    async with served(code2wav=voices(10, 2400)) as (url, _here):
        async with connect(url) as client:
            greeting = await opened(client, input_hz=16000)
            await ask(client)
            before = await until(client, "response_text")
            client.transport.abort()
        async with connect(url) as client:
            known = {"version": 1, "session_id": greeting["session_id"], "token": greeting["token"]}
            await say(client, "resume", seen=before[-1]["sequence"], **known)
            resumed = await heard(client)
            assert isinstance(resumed, dict)
            assert (resumed["type"], resumed["generation"], resumed["resync"]) == ("resumed", 1, False)
            assert resumed["terms"] == greeting["terms"], "what was agreed holds"
            after = await until(client, "response_done")
            assert numbers(after) == list(range(before[-1]["sequence"] + 1, before[-1]["sequence"] + 1 + len(after)))
            assert sum(one.samples for one in after if isinstance(one, Frame)) == 20 * 2400
            assert all(one.flags in (0, AGAIN) for one in after if isinstance(one, Frame))
            await say(client, "ack", sequence=after[-1]["sequence"])
            await say(client, "heartbeat")
            await until(client, "heartbeat")
            async with connect(url) as thief:
                await say(thief, "resume", seen=0, **known)
                seen, code = await ended(thief)
                assert ([one["code"] for one in seen], code) == (["resume_token_invalid"], 1008)
            await say(client, "close")
            assert (await ended(client))[1] == 1000


async def test_a_refusal_that_was_missed_is_told_again() -> None:
    async with served() as (url, _here):
        async with connect(url) as client:
            greeting = await opened(client)
            await client.send("nonsense")
            told = await heard(client)
            client.transport.abort()
        async with connect(url) as client:
            await say(client, "resume", version=1, session_id=greeting["session_id"], token=greeting["token"], seen=1)
            assert (await heard(client))["type"] == "resumed"  # type: ignore[index]
            assert await heard(client) == told
            await say(client, "close")
            await ended(client)


async def test_the_connection_before_is_told_that_it_is_replaced() -> None:
    async with served() as (url, _here), connect(url) as first:
        greeting = await opened(first)
        async with connect(url) as second:
            known = {"version": 1, "session_id": greeting["session_id"], "token": greeting["token"]}
            await say(second, "resume", seen=1, **known)
            assert (await heard(second))["type"] == "resumed"  # type: ignore[index]
            seen, code = await ended(first)
            assert ([one["reason"] for one in seen], code) == (["replaced"], 1008)
            await say(second, "signal", signal={"kind": "clear"})
            await until(second, "cleared")
            await say(second, "close")
            await ended(second)


async def test_a_session_that_is_not_to_be_resumed_ends_with_its_connection() -> None:
    async with served() as (url, here):
        async with connect(url) as client:
            greeting = await opened(client, resumable=False)
            assert (greeting["token"], greeting["terms"]["grace_s"]) == ("", 0)
        async with asyncio.timeout(5):
            while len(here.host.admission):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.005)


# The queue ------------------------------------------------------------------------------------


async def test_who_waits_is_told_and_then_let_in_with_what_was_sent_meanwhile() -> None:
    async with served(capacity=1, queue_length=1) as (at, here), connect(at) as client:
        async with connect(at) as first:
            await opened(first)
            patch = {"instructions": "Be brief."}
            await say(client, "open", version=1, resumable=True, settings=patch, id="mine")
            assert await heard(client) == {"type": "queued", "position": 1, "eta_s": None}
            await say(client, "heartbeat", at=1.5)
            assert await heard(client) == {"type": "heartbeat", "at": 1.5, "taken": 0}
            await say(client, "update", item={"role": "user", "text": "Hello?"}, sequence=1)
            await say(first, "close")
        seen = await until(client, "item_done")
        assert [one["type"] for one in seen] == ["opened", "updated", "item_added", "item_done"]
        assert numbers(seen) == [1, 2, 3, 4]
        assert seen[1]["settings"]["instructions"] == "Be brief."
        assert seen[0]["token"]
        assert here.host.counters["sessions_queued"] == 1


@pytest.mark.parametrize("politely", [True, False])
async def test_who_leaves_the_queue_gives_the_number_back(politely: bool) -> None:
    async with served(capacity=1, queue_length=1) as (at, here), connect(at) as first:
        await opened(first)
        client = await connect(at)
        await say(client, "open", version=1, resumable=True)
        await until(client, "queued")
        if politely:
            await say(client, "close")
            assert (await ended(client))[1] == 1000
        else:
            await say(client, "update", item={"role": "user", "text": "Hello?"})
            await client.close()
        async with asyncio.timeout(2):
            while here.host.admission.waiting:  # noqa: ASYNC110 - nobody else is told
                await asyncio.sleep(0.005)
        assert len(here.host.admission) == 1


async def test_who_waits_too_long_is_told_to_come_again() -> None:
    async with served(capacity=1, queue_length=1, queue_wait_s=0.05) as (at, _here), connect(at) as first:
        await opened(first)
        async with connect(at) as client:
            await say(client, "open", version=1)
            seen, code = await ended(client)
            assert [one["type"] for one in seen] == ["queued", "closed"]
            assert (seen[1]["reason"], seen[1]["sequence"], code) == ("queue_timeout", 0, 1013)


async def test_who_waits_is_not_held_to_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "HEARTBEAT_S", 0.02)
    async with served(capacity=1, queue_length=1) as (at, here):
        first = contextlib.AsyncExitStack()
        await first.enter_async_context(here.host.open())
        async with connect(at) as client:
            await say(client, "open", version=1)
            await until(client, "queued")
            await asyncio.sleep(0.2)
            await first.aclose()
            await until(client, "opened")
