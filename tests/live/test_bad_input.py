"""What a client may send and should not: told by its event's name or shown the door, and the server lives."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from duplex.audio.pcm import Samples
from tests.live.caller import calling
from tests.live.conftest import next_turn
from tests.live.process import Process
from tests.live.wire import Wire, client_frame
from tests.transport.schema import checked_text

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]

APPEND = "input_audio_buffer.append"
REFUSED: dict[str, dict[str, Any]] = {
    "unknown_type": {"type": "input_audio_buffer.explode"},
    "no_type": {"audio": "AAAA"},
    "type_is_a_number": {"type": 7},
    "not_base64": {"type": APPEND, "audio": "!!!!"},
    "half_a_quantum": {"type": APPEND, "audio": "AAAAA"},
    "odd_bytes": {"type": APPEND, "audio": base64.b64encode(b"abc").decode()},
    "no_audio": {"type": APPEND},
    "audio_is_null": {"type": APPEND, "audio": None},
    "audio_is_a_list": {"type": APPEND, "audio": [1, 2, 3]},
    "no_session": {"type": "session.update"},
    "session_is_text": {"type": "session.update", "session": "new"},
    "bad_vad": {"type": "session.update", "session": {"audio": {"input": {"turn_detection": {"type": "magic"}}}}},
    "bad_silence": {
        "type": "session.update",
        "session": {"audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": -1}}}},
    },
    "bad_format": {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}},
    "no_item": {"type": "conversation.item.create"},
    "no_role": {"type": "conversation.item.create", "item": {"type": "message", "content": []}},
    "image": {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]},
    },
    "after_nothing": {
        "type": "conversation.item.create",
        "previous_item_id": "gone",
        "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    },
    "no_such_item": {"type": "conversation.item.retrieve", "item_id": "gone"},
    "delete_nothing": {"type": "conversation.item.delete", "item_id": "gone"},
    "truncate_nothing": {
        "type": "conversation.item.truncate",
        "item_id": "gone",
        "content_index": 0,
        "audio_end_ms": 1,
    },
    "before_its_start": {
        "type": "conversation.item.truncate",
        "item_id": "gone",
        "content_index": 0,
        "audio_end_ms": -1,
    },
    "huge_number": {
        "type": "conversation.item.truncate",
        "item_id": "gone",
        "content_index": 0,
        "audio_end_ms": 10**30,
    },
    "no_tokens": {"type": "response.create", "response": {"max_output_tokens": 0}},
    "tools": {"type": "response.create", "response": {"tools": [{"type": "function", "name": "f"}]}},
    "cancel_nothing": {"type": "response.cancel"},
    "commit_nothing": {"type": "input_audio_buffer.commit"},
    "webrtc_only": {"type": "output_audio_buffer.clear"},
}
UNREADABLE = ["", "{", "[]", "7", "null", '"text"', "{}", '{"type":', "\x00", "nonsense", "[" * 100_000, '{"a":' * 9999]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[ClientConnection]:
    """A bare WebSocket to a session whose first two events have been read."""
    address = f"ws{url.removeprefix('http')}v1/realtime?model=duplex"
    async with connect(address, proxy=None, compression=None, close_timeout=3, ping_interval=None) as socket:
        assert checked_text(await socket.recv())["type"] == "session.created"
        assert checked_text(await socket.recv())["type"] == "conversation.created"
        yield socket


async def told(connection: ClientConnection) -> dict[str, Any]:
    """The next event."""
    async with asyncio.timeout(5):
        return checked_text(await connection.recv())


async def closed(connection: ClientConnection, within_s: float = 5.0) -> ConnectionClosed:
    """Read until the server has closed; how it did."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                await connection.recv()
            except ConnectionClosed as end:
                return end


async def test_each_bad_event_is_answered_by_its_name(server: Process) -> None:
    async with connected(server.url) as connection:
        for name, event in REFUSED.items():
            await connection.send(json.dumps({"event_id": name, **event}))
            answer = await told(connection)
            assert answer["type"] == "error", (name, answer)
            error = answer["error"]
            assert error["event_id"] == name, error
            assert error["type"] == "invalid_request_error", error
            assert error["code"], error
            assert error["message"], error
    await next_turn(server.url)


async def test_what_cannot_be_read_is_answered_all_the_same(server: Process) -> None:
    async with connected(server.url) as connection:
        for text in UNREADABLE:
            await connection.send(text)
            answer = await told(connection)
            assert answer["type"] == "error", (text[:20], answer)
            assert answer["error"]["event_id"] is None
            assert len(answer["error"]["message"]) < 300
        await connection.send(b"\x00\x01" * 480)
        answer = await told(connection)
        assert answer["error"]["code"] == "invalid_json"
        assert "binary" in answer["error"]["message"]
        # None of it has done the session any harm.
        await connection.send('{"type":"input_audio_buffer.clear"}')
        assert (await told(connection))["type"] == "input_audio_buffer.cleared"
    await next_turn(server.url)


async def test_a_flood_of_errors_ends_the_connection(server: Process) -> None:
    async with connected(server.url) as connection:
        with suppress(ConnectionClosed):
            for _ in range(1000):
                await connection.send("nonsense")
        end = await closed(connection)
        assert end.rcvd is not None
        assert end.rcvd.code == 1008
    await next_turn(server.url)


async def test_a_huge_message_ends_the_connection(server: Process) -> None:
    async with connected(server.url) as connection:
        with suppress(ConnectionClosed):
            await connection.send(json.dumps({"type": APPEND, "audio": "A" * (17 << 20)}))
        end = await closed(connection)
        assert end.rcvd is None or end.rcvd.code == 1009
    await next_turn(server.url)


async def test_a_large_message_is_taken_and_presses_back(server: Process) -> None:
    """Five minutes of silence in one message, and the session goes on."""
    async with calling(server.url, audio={"input": {"turn_detection": None}}) as caller:
        large = base64.b64encode(bytes(10 << 20)).decode()
        await caller.connection.input_audio_buffer.append(audio=large)
        await asyncio.sleep(0)
        await caller.connection.input_audio_buffer.clear()
        # Another session is answered meanwhile.
        await next_turn(server.url)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (client_frame(1, b"{}", mask=False), 1002),
        (client_frame(3, b""), 1002),
        (client_frame(1, b"\xff\xfe"), 1007),
        (client_frame(0, b"x"), 1002),
        (client_frame(9, b"x" * 126), 1002),
        (client_frame(8, b"\x03"), 1002),
        (client_frame(8, (999).to_bytes(2, "big")), 1002),
        (client_frame(1, b"{", final=False) + client_frame(1, b"}"), 1002),
        (b"GET / HTTP/1.1\r\n\r\n", 1002),
    ],
    ids=["unmasked", "opcode", "utf8", "continuation", "ping", "short_close", "close_code", "fragments", "http"],
)
async def test_a_breach_of_the_protocol_ends_the_connection(server: Process, frames: bytes, code: int) -> None:
    async with Wire.session(server.url) as wire:
        await wire.send(frames)
        assert await wire.closed() == code
    await next_turn(server.url)


async def test_what_comes_after_the_close_is_for_nobody(server: Process, spoken: dict[str, Samples]) -> None:
    audio = json.dumps({"type": APPEND, "audio": base64.b64encode(spoken["dinner"].tobytes()).decode()}).encode()
    async with Wire.session(server.url) as wire:
        await wire.send(client_frame(8, (1000).to_bytes(2, "big")) + 5 * client_frame(1, audio))
        assert await wire.closed() == 1000
        await server.settled(server.holdings())
    async with Wire.session(server.url) as wire:
        # The server closes; the client neither answers nor stops talking.
        await wire.send(101 * client_frame(1, b"nonsense"))
        assert await wire.closed() == 1008
        await wire.send(5 * client_frame(1, audio))
    await next_turn(server.url)


async def test_an_unfinished_message_waits_and_goes_with_its_connection(server: Process) -> None:
    async with Wire.session(server.url) as wire:
        await wire.send(client_frame(1, b'{"type":', final=False))
        await wire.send(client_frame(1, b"x" * 5000)[:1000])
        await next_turn(server.url)


@pytest.mark.parametrize("speaks", [True, False], ids=["spoken_to", "silent"])
async def test_a_client_that_does_not_read_is_cut_off(server: Process, speaks: bool) -> None:
    """It stops reading and goes on asking; only what it asks for itself can fill its buffers in reasonable time."""
    text = "x" * 100_000
    created = {
        "type": "conversation.item.create",
        "item": {"type": "message", "id": "big", "role": "user", "content": [{"type": "input_text", "text": text}]},
    }
    question = {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tell me a story."}]},
    }
    async with Wire.session(server.url, receive_buffer_bytes=8192) as wire:
        if speaks:
            for event in (question, {"type": "response.create"}):
                await wire.send(client_frame(1, json.dumps(event).encode()))
            await wire.until(b"response.output_audio.delta")
        await wire.send(client_frame(1, json.dumps(created).encode()))
        with pytest.raises(ConnectionError):
            await wire.insist(client_frame(1, b'{"type":"conversation.item.retrieve","item_id":"big"}'))
    await next_turn(server.url)


async def test_handshakes_that_are_never_finished(server: Process) -> None:
    before = server.holdings()
    host, port = server.url.removeprefix("http://").rstrip("/").split(":")
    beginnings = [
        b"",
        b"GET",
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n",
        b"\x16\x03\x01\x02\x00",
    ]
    sockets = []
    for beginning in 10 * beginnings:
        sock = socket.create_connection((host, int(port)))
        sock.sendall(beginning)
        sockets.append(sock)
    await next_turn(server.url)
    for sock in sockets:
        sock.close()
    await server.settled(before)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-WebSocket-Version": "7"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"X-Long": "x" * 10_000}, 431),
    ],
    ids=["version", "key", "origin", "headers"],
)
async def test_a_handshake_that_is_not_one(server: Process, headers: dict[str, str], status: int) -> None:
    async with Wire.handshake(server.url, headers) as wire:
        assert await wire.status() == status
    await next_turn(server.url)
