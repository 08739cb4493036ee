"""Sessions over real sockets: refusals, mistakes, floods, slow readers, and every way of going away."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import struct
from typing import Any

import numpy as np
import pytest
import uvicorn
import websockets
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.asyncio.client import ClientConnection, connect

from duplex.session import events, notices
from duplex.session.events import ClientEvent
from duplex.session.fence import MAIN, Fence
from duplex.session.notices import ResponseInfo
from duplex.session.port import Audio
from duplex.transport.channel import MAX_REFUSED
from duplex.transport.serve import SessionWebSocket, uvicorn_config
from tests.transport import fakes
from tests.transport.fakes import Host, Info, Port, Settings, app, running, serving
from tests.transport.schema import checked_text

pytestmark = pytest.mark.anyio

SECOND = np.zeros(24_000, np.int16)

QUIET = logging.getLogger("tests.quiet")
"""For a client whose own log is not looked at."""
QUIET.setLevel(logging.ERROR)


def url(at: str, query: str = "?model=duplex") -> str:
    return f"ws://{at}/v1/realtime{query}"


async def received(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(5):
        return checked_text(await client.recv())


async def greeted(client: ClientConnection) -> None:
    assert [(await received(client))["type"] for _ in range(2)] == ["session.created", "conversation.created"]


async def closed(client: ClientConnection) -> tuple[int, str]:
    """The close frame that the server sends; whatever it sent before is passed over."""
    async with asyncio.timeout(5):
        try:
            while True:
                await client.recv()
        except websockets.ConnectionClosed as over:
            return (over.rcvd.code, over.rcvd.reason) if over.rcvd is not None else (1006, "")


def append(pcm: np.ndarray | bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(pcm)).decode()})


def speak(port: Port, *, chunks: int = 1, samples: int = 6000) -> None:
    """An answer of so many chunks of audio begins."""
    response = ResponseInfo(response_id="resp_1", modality="audio", status="in_progress")
    item = notices.Item(item_id="item_1", role="assistant", status="in_progress", parts=())
    fence = Fence(port.session_id, 1, MAIN, 1)
    pcm = np.ones(samples, np.int16)
    port.tell(
        notices.ResponseCreated(response=response),
        notices.ResponseItemAdded(response_id="resp_1", item=item, previous_item_id=None),
        *[Audio(fence=fence, response_id="resp_1", item_id="item_1", pcm=pcm)] * chunks,
    )


# Before the upgrade ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("?model=duplex", {"Authorization": "Bearer wrong"}, 401, "invalid_api_key"),
        (
            "?model=duplex",
            {"Authorization": "Bearer sesame", "Origin": "https://evil.example"},
            403,
            "origin_not_allowed",
        ),
        ("?model=gpt-9", {"Authorization": "Bearer sesame"}, 404, "model_not_found"),
        ("?intent=transcription", {"Authorization": "Bearer sesame"}, 400, "unsupported"),
        ("?call_id=c", {"Authorization": "Bearer sesame"}, 400, "unsupported"),
    ],
)
async def test_refusals_are_http_and_say_why(
    query: str, headers: dict[str, str], status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host()
    async with running(app(host, settings=Settings(api_key="sesame"))) as at:
        with pytest.raises(websockets.InvalidStatus) as caught:
            await connect(url(at, query), additional_headers=headers)
        response = caught.value.response
        assert response.status_code == status
        assert json.loads(response.body)["error"]["code"] == code
        assert "sesame" not in str(response.body)
    assert host.ports == []
    assert "sesame" not in caplog.text
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_no_log_level_shows_keys_or_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    host = Host()
    async with running(app(host, settings=Settings(api_key="sesame"))) as at:
        async with connect(url(at), additional_headers={"Authorization": "Bearer sesame"}, logger=QUIET) as client:
            await greeted(client)
            await client.send('{"type":"response.create","response":{"instructions":"between us"}}')
            await host.until(lambda: bool(host.ports[0].events))
        offered: Any = ["realtime", "openai-insecure-api-key.sesame"]
        async with connect(url(at), subprotocols=offered, logger=QUIET) as client:
            await greeted(client)
    assert caplog.records
    assert "sesame" not in caplog.text
    assert "between us" not in caplog.text


async def test_a_full_server_says_when_to_come_back_and_a_place_comes_free() -> None:
    host = Host(places=1)
    async with running(app(host)) as at:
        async with connect(url(at)) as first:
            await greeted(first)
            with pytest.raises(websockets.InvalidStatus) as caught:
                await connect(url(at))
            assert caught.value.response.status_code == 503
            assert caught.value.response.headers["Retry-After"] == "7"
            body = json.loads(caught.value.response.body)
            assert body["error"]["code"] == "server_full"
            assert body["rate_limits"] == [{"name": "sessions", "limit": 1, "remaining": 0, "reset_seconds": 7.0}]
        await host.until(lambda: host.open_sessions == 0)
        async with connect(url(at)) as second:
            await greeted(second)


async def test_a_server_that_is_still_starting_says_so() -> None:
    async with running(app(info=Info(ready=False))) as at:
        with pytest.raises(websockets.InvalidStatus) as caught:
            await connect(url(at))
        assert caught.value.response.status_code == 503
        assert json.loads(caught.value.response.body)["error"]["code"] == "not_ready"


async def test_another_path_is_refused_as_http() -> None:
    async with running(app()) as at:
        with pytest.raises(websockets.InvalidStatus) as caught:
            await connect(f"ws://{at}/realtime")
        assert caught.value.response.status_code == 404


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, None),
        (["realtime"], "realtime"),
        (["realtime", "openai-insecure-api-key.sesame", "openai-beta.realtime-v1"], "realtime"),
    ],
)
async def test_a_browser_shows_its_key_as_a_subprotocol(offered: Any, chosen: str | None) -> None:
    settings = Settings(api_key="sesame" if offered and len(offered) > 1 else None)
    async with running(app(settings=settings)) as at, connect(url(at), subprotocols=offered) as client:
        assert client.subprotocol == chosen
        await greeted(client)


async def test_uvicorn_itself_still_logs_refusals_as_faults(caplog: pytest.LogCaptureFixture) -> None:
    """Once this fails, uvicorn has been mended, and `SessionWebSocket.send` can go."""

    def stock(**how: Any) -> uvicorn.Config:
        config = uvicorn_config(**how)
        config.ws = WebSocketsSansIOProtocol
        return config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fakes, "uvicorn_config", stock)
        async with running(app(Host(places=0))) as at:
            with pytest.raises(websockets.InvalidStatus):
                await connect(url(at))
    assert "without completing handshake" in caplog.text


# The queue ------------------------------------------------------------------------------------


async def position(client: ClientConnection) -> tuple[int, float | None]:
    async with asyncio.timeout(5):
        event = json.loads(await client.recv())
    assert set(event) == {"type", "event_id", "position", "eta_s"}
    assert event["type"] == "duplex.queue.updated"
    return event["position"], event["eta_s"]


async def test_who_waits_is_let_in_told_the_position_and_loses_nothing() -> None:
    host = Host(queues=True)
    async with running(app(host)) as at, connect(url(at)) as client:
        await host.until(lambda: bool(host.ports))
        port = host.ports[0]
        port.tell(notices.Queued(position=2, eta_s=None))
        assert await position(client) == (2, None)
        for _ in range(50):
            await client.send(append(SECOND[:4800]))
        await client.send('{"type":"input_audio_buffer.commit"}')
        await client.send('{"type":"session.update","session":{"type":"realtime","instructions":"Be kind."}}')
        port.tell(notices.Queued(position=1, eta_s=3.5))
        assert await position(client) == (1, 3.5)
        assert port.events == []
        assert port.waiting == 0
        port.begin()
        await greeted(client)
        await host.until(lambda: any(isinstance(event, events.Configure) for event in port.events))
        assert port.heard == 50 * 3200
        configured = port.events[-1]
        assert isinstance(configured, events.Configure)
        assert configured.settings.instructions == "Be kind."


async def test_a_client_in_the_queue_is_not_read() -> None:
    host = Host(queues=True)
    async with running(app(host)) as at, connect(url(at)) as client:
        await host.until(lambda: bool(host.ports))
        flood = append(np.zeros(400_000, np.int16))

        async def send_all() -> None:
            for _ in range(40):
                await client.send(flood)

        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(send_all())
            await asyncio.sleep(0.5)
            assert not sending.done(), "40 MB have gone somewhere"
            host.ports[0].begin()
        async with asyncio.timeout(30):
            await host.until(lambda: host.ports[0].heard > 39 * 250_000)


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("said", [0, 1, 20])
async def test_a_client_that_gives_up_waiting_leaves_the_queue(how: str, said: int) -> None:
    host = Host(queues=True)
    async with running(app(host)) as at:
        client = await connect(url(at), close_timeout=0.2)
        await host.until(lambda: bool(host.ports))
        for _ in range(said):
            await client.send(append(SECOND))
        if how == "close":
            await client.close()
        else:
            client.transport.abort()

        def over() -> bool:
            # What is unread hides that the client is gone; the next thing that it is told shows it.
            host.ports[0].tell(notices.Queued(position=1, eta_s=None))
            return host.open_sessions == 0

        await host.until(over)


async def test_who_has_waited_too_long_is_sent_away_with_1013() -> None:
    host = Host(queues=True)
    async with running(app(host)) as at, connect(url(at)) as client:
        await host.until(lambda: bool(host.ports))
        host.ports[0].tell(notices.Queued(position=1, eta_s=None))
        host.ports[0].close("queue_timeout", "No place became free in time.")
        await position(client)
        error = (await received(client))["error"]
        assert (error["code"], error["type"]) == ("session_queue_timeout", "server_error")
        assert await closed(client) == (1013, "No place became free in time.")
        await host.until(lambda: host.open_sessions == 0)


@pytest.mark.parametrize("patched", [True, False], ids=["here", "uvicorn itself"])
async def test_a_client_that_is_not_read_is_not_cut_off_for_pongs_that_wait(
    patched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the second fails, uvicorn has been mended, and `SessionWebSocket.keepalive_timeout` can be simpler."""

    def impatient(**how: Any) -> uvicorn.Config:
        config = uvicorn_config(**how)
        config.ws_ping_interval = config.ws_ping_timeout = 0.1
        return config

    monkeypatch.setattr(fakes, "uvicorn_config", impatient)
    if not patched:
        monkeypatch.setattr(SessionWebSocket, "keepalive_timeout", WebSocketsSansIOProtocol.keepalive_timeout)
    host = Host(queues=True)
    async with running(app(host)) as at, connect(url(at), ping_interval=None) as client:
        await host.until(lambda: bool(host.ports))
        for _ in range(3):
            await client.send(append(SECOND[:2400]))
        await client.send('{"type":"input_audio_buffer.commit"}')
        await asyncio.sleep(0.5)
        host.ports[0].begin()
        if patched:
            await greeted(client)
            await host.until(lambda: host.ports[0].heard == 3 * 1600)
        else:
            assert (await closed(client))[0] == 1011


# Mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code", "event_id"),
    [
        ("not json", "invalid_json", None),
        (b'{"type":"response.cancel"}', "invalid_json", None),
        ('{"type":"no.such","event_id":"e1"}', "unknown_event", "e1"),
        ('{"type":"input_audio_buffer.append","audio":"%%","event_id":"e2"}', "invalid_value", "e2"),
        ('{"type":"input_audio_buffer.append","audio":"AAAA","event_id":"e3"}', "invalid_value", "e3"),
        ('{"type":"session.update","session":{"type":"transcription"},"event_id":"e4"}', "unsupported", "e4"),
    ],
)
async def test_a_mistake_is_answered_and_the_session_goes_on(
    message: str | bytes, code: str, event_id: str | None
) -> None:
    host = Host()
    async with running(app(host)) as at, connect(url(at)) as client:
        await greeted(client)
        await client.send(message)
        error = (await received(client))["error"]
        assert (error["code"], error["event_id"]) == (code, event_id)
        assert host.ports[0].events == []
        await client.send('{"type":"response.cancel"}')
        await host.until(lambda: host.ports[0].events == [events.CancelResponse()])


async def test_a_flood_of_mistakes_ends_the_connection() -> None:
    host = Host()
    async with running(app(host)) as at, connect(url(at)) as client:
        for good in (1, 2):
            for _ in range(MAX_REFUSED - 1):
                await client.send("x")
            await client.send('{"type":"response.cancel"}')
            await host.until(lambda good=good: bool(host.ports) and len(host.ports[0].events) == good)  # type: ignore[misc]
        for _ in range(MAX_REFUSED):
            await client.send("x")
        code, reason = await closed(client)
        assert code == 1008
        assert str(MAX_REFUSED) in reason
        await host.until(lambda: host.open_sessions == 0)


async def test_a_huge_message_closes_the_connection_cleanly() -> None:
    host = Host()
    settings = Settings(max_message_bytes=100_000)
    async with running(app(host, settings=settings), settings=settings) as at, connect(url(at)) as client:
        await greeted(client)
        await client.send(append(bytes(60_000)))
        await host.until(lambda: host.ports[0].heard > 0)
        await client.send(append(bytes(120_000)))
        assert (await closed(client))[0] == 1009
        await host.until(lambda: host.open_sessions == 0)


async def test_text_that_is_no_utf8_closes_the_connection_cleanly() -> None:
    host = Host()
    async with running(app(host)) as at, connect(url(at)) as client:
        await greeted(client)
        await client.send(b"\xff\xfe", text=True)
        assert (await closed(client))[0] == 1007
        await host.until(lambda: host.open_sessions == 0)


# Input ----------------------------------------------------------------------------------------


async def test_one_giant_append_is_taken_slice_by_slice_and_in_order() -> None:
    host = Host()
    async with running(app(host)) as at, connect(url(at)) as client:
        await greeted(client)
        port = host.ports[0]
        await client.send(append(np.zeros(24_000 * 60, np.int16)))
        await host.until(lambda: bool(port.events))
        assert len(port.events) < 150, "nobody else had a turn until all of it was resampled"
        await client.send('{"type":"input_audio_buffer.commit"}')
        await host.until(lambda: events.CommitAudio() in port.events)
        assert port.events[-1] == events.CommitAudio()
        assert port.heard == 16_000 * 60
        assert max(len(event.pcm) for event in port.events[:-1] if isinstance(event, events.AppendAudio)) <= 3200


async def test_a_full_mailbox_makes_the_client_wait_and_drops_nothing() -> None:
    host = Host(mailbox=3)
    async with running(app(host)) as at, connect(url(at)) as client:
        await greeted(client)
        for _ in range(10):
            await client.send(append(SECOND[:4800]))
        port = host.ports[0]
        await host.until(lambda: port.waiting == 1)
        assert len(port.events) == 3
        port.make_room(1000)
        await client.send('{"type":"input_audio_buffer.commit"}')
        await host.until(lambda: events.CommitAudio() in port.events)
        assert port.heard == 32_000


# Output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alive", ["pressed back", "sending", "silent"])
async def test_a_client_that_does_not_answer_a_ping_is_gone_only_where_it_is_silent(alive: str) -> None:
    host = Host(mailbox=2)
    async with serving(app(host)) as (at, server), connect(url(at), close_timeout=0.2) as client:
        await greeted(client)
        (connection,) = server.server_state.connections
        assert isinstance(connection, SessionWebSocket)
        if alive == "pressed back":
            for _ in range(9):
                await client.send(append(SECOND[:4800]))
            await host.until(lambda: connection.read_paused)
        connection.send_keepalive_ping()
        if alive == "sending":
            await client.send(append(SECOND[:480]))
            await host.until(lambda: host.ports[0].heard > 0)
        connection.pending_ping_payload = b"lost"
        connection.keepalive_timeout()
        assert connection.close_sent is (alive == "silent")
        host.ports[0].make_room(1000)


async def test_pings_of_a_client_that_does_not_read_take_no_memory() -> None:
    host = Host()
    async with serving(app(host)) as (at, server):
        raw = await deaf(at)
        await host.until(lambda: bool(host.ports))
        (connection,) = server.server_state.connections
        transport = connection.transport  # type: ignore[union-attr]
        frame = b"\x89\xfd" + bytes(4) + b"p" * 125
        async with asyncio.timeout(20):
            for _ in range(100):
                await asyncio.get_running_loop().sock_sendall(raw, frame * 1000)
            last = b'{"type":"input_audio_buffer.commit"}'
            await asyncio.get_running_loop().sock_sendall(raw, bytes([0x81, 0x80 + len(last)]) + bytes(4) + last)
            await host.until(lambda: bool(host.ports[0].events))
        assert transport.get_write_buffer_size() < 1_000_000
        raw.close()


async def test_a_handshake_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionWebSocket, "handshake_s", 0.1)
    async with asyncio.timeout(5), serving(app()) as (at, server):
        raw = await deaf(at, "Content-Length: 100")
        assert await asyncio.get_running_loop().sock_recv(raw, 1) == b""
        assert not server.server_state.connections
        raw.close()


async def test_the_writer_takes_from_the_session_only_what_the_socket_has_room_for() -> None:
    """Whatever the client has not been sent is still in the session, where an interruption can take it out."""
    host = Host()
    async with running(app(host, settings=Settings(slow_reader_s=30))) as at, connect(url(at), max_queue=1) as client:
        await greeted(client)
        port = host.ports[0]
        speak(port, chunks=2000)
        await asyncio.sleep(0.3)
        assert port._told.qsize() > 1000
        client.transport.abort()
        await host.until(lambda: host.open_sessions == 0)


async def test_a_client_that_does_not_read_is_cut_off_and_its_place_comes_free() -> None:
    host = Host()
    settings = Settings(slow_reader_s=0.3)
    async with serving(app(host, settings=settings), settings=settings) as (at, server):
        raw = await deaf(at)
        await host.until(lambda: bool(host.ports))
        speak(host.ports[0], chunks=5000)
        await host.until(lambda: host.open_sessions == 0)
        await host.until(lambda: not server.server_state.connections)
        raw.close()


async def test_a_client_that_only_makes_mistakes_and_does_not_read_is_cut_off_too() -> None:
    host = Host()
    settings = Settings(slow_reader_s=0.3)
    async with running(app(host, settings=settings), settings=settings) as at:
        raw = await deaf(at)
        await host.until(lambda: bool(host.ports))
        speak(host.ports[0], chunks=5000)
        frame = b"\x81\x81" + bytes(4) + b"x"
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(raw, frame * 50)
        await host.until(lambda: host.open_sessions == 0)
        raw.close()


@pytest.mark.parametrize("ends", ["the session", "the server"])
async def test_a_client_that_does_not_read_cannot_hold_a_connection_that_ends(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionWebSocket, "linger_s", 0.2)
    host = Host()
    settings = Settings(slow_reader_s=30)
    async with asyncio.timeout(10), serving(app(host, settings=settings), settings=settings) as (at, server):
        raw = await deaf(at)
        await host.until(lambda: bool(host.ports))
        (connection,) = server.server_state.connections
        transport = connection.transport  # type: ignore[union-attr]
        # Something stays unsent in the server, but not so much that the next send would have to wait.
        while not transport.get_write_buffer_size():
            speak(host.ports[0], samples=3000)
            await asyncio.sleep(0.001)
        if ends == "the session":
            host.ports[0].close("client", "")
            await host.until(lambda: not server.server_state.connections)
    assert host.open_sessions == 0
    raw.close()


async def deaf(at: str, *headers: str) -> socket.socket:
    """A client that asks for a session and never reads."""
    address, port = at.split(":")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (address, int(port)))
    lines = [
        "GET /v1/realtime?model=duplex HTTP/1.1",
        f"Host: {at}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
        *headers,
    ]
    await loop.sock_sendall(raw, "\r\n".join([*lines, "", ""]).encode())
    return raw


@pytest.mark.parametrize(
    ("reason", "code"), [("client", 1000), ("idle", 1000), ("expired", 1000), ("shutdown", 1001), ("error", 1011)]
)
async def test_a_session_that_ends_says_why_and_closes(reason: str, code: int) -> None:
    host = Host()
    async with running(app(host)) as at, connect(url(at)) as client:
        await greeted(client)
        host.ports[0].close(reason, "It is over.")
        if reason != "client":
            assert (await received(client))["error"]["code"] == f"session_{reason}"
        assert await closed(client) == (code, "It is over.")
        await host.until(lambda: host.open_sessions == 0)


# Going away -----------------------------------------------------------------------------------


def reset(client: ClientConnection) -> None:
    """Vanish: no close frame, and a reset instead of an end of the stream."""
    raw = client.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.transport.abort()


@pytest.mark.parametrize("how", ["close", "abort", "reset"])
@pytest.mark.parametrize("when", ["greeting", "idle", "speaking", "waiting for room", "refused"])
async def test_a_client_that_goes_away_leaves_nothing_behind(how: str, when: str) -> None:
    def answer(port: Port, event: ClientEvent) -> None:
        if isinstance(event, events.CreateResponse):
            speak(port, chunks=400)

    host = Host(answer, mailbox=2)
    async with running(app(host)) as at:
        # A client that has stopped reading, or is not read from, gets no answer to its close frame in time.
        client = await connect(url(at), close_timeout=0.2)
        if when != "greeting":
            await greeted(client)
        if when == "speaking":
            await client.send('{"type":"response.create"}')
            await received(client)
        if when == "waiting for room":
            for _ in range(5):
                await client.send(append(SECOND[:4800]))
            await host.until(lambda: host.ports[0].waiting == 1)
            speak(host.ports[0], chunks=1)
        if when == "refused":
            await client.send("x" * 1000)
        if how == "close":
            await client.close()
        elif how == "abort":
            client.transport.abort()
        else:
            reset(client)
        if when == "waiting for room":
            host.ports[0].make_room(1000)
        await host.until(lambda: host.open_sessions == 0)


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_place_comes_free_although_the_session_is_not_through_with_what_was_sent(how: str) -> None:
    host = Host(mailbox=2)
    async with running(app(host)) as at:
        client = await connect(url(at), close_timeout=0.2)
        await greeted(client)
        await client.send(append(np.tile(SECOND, 60)))
        await host.until(lambda: host.ports[0].waiting == 1)
        if how == "close":
            await client.close()
        else:
            client.transport.abort()
        await host.until(lambda: host.open_sessions == 0)


async def test_a_handshake_that_is_given_up_leaves_nothing_behind() -> None:
    host = Host()
    async with running(app(host)) as at:
        for _ in range(20):
            raw = await deaf(at)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()
        await asyncio.sleep(0.05)
        await host.until(lambda: host.open_sessions == 0)


async def test_the_server_stops_while_sessions_are_open() -> None:
    host = Host()
    async with running(app(host)) as at:
        client = await connect(url(at))
        await greeted(client)
    assert (await closed(client))[0] == 1012
    assert host.open_sessions == 0
