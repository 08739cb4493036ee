"""The stock `openai` client, unmodified, against the server's own WebSocket and a scripted session."""

from __future__ import annotations

import asyncio
import base64

import numpy as np
import pytest
from openai import AsyncOpenAI

from duplex.session import events, notices
from duplex.session.events import ClientEvent
from duplex.session.fence import MAIN, Fence
from duplex.session.item import Item, Part
from duplex.session.notices import ResponseInfo
from duplex.session.port import Audio
from tests.transport.fakes import Host, Port, Settings, app, running

pytestmark = pytest.mark.anyio

TONE = (8000 * np.sin(np.arange(4800) / 10)).astype(np.int16)


def echo(port: Port, event: ClientEvent) -> None:
    """A session that answers a typed message with its own words, spoken as a tone."""
    match event:
        case events.Configure(settings=settings):
            port.tell(notices.Configured(settings=settings))
        case events.CreateItem(item=item):
            port.tell(
                notices.ItemAdded(item=item, previous_item_id=None), notices.ItemDone(item=item, previous_item_id=None)
            )
        case events.CreateResponse(options=options):
            begun = ResponseInfo(response_id="r", modality="audio", status="in_progress", metadata=options.metadata)
            item = Item(item_id="a", role="assistant", status="in_progress", parts=())
            parts = (Part(kind="audio", text="Hello.", audio_ms=200),)
            finished = Item(item_id="a", role="assistant", status="completed", parts=parts)
            port.tell(
                notices.ResponseCreated(response=begun),
                notices.ResponseItemAdded(response_id="r", item=item, previous_item_id="u"),
                notices.ItemAdded(item=item, previous_item_id="u"),
                notices.ResponseText(response_id="r", item_id="a", text="Hello.", modality="audio"),
                Audio(fence=Fence(port.session_id, 1, MAIN, 1), response_id="r", item_id="a", pcm=TONE),
                notices.ItemDone(item=finished, previous_item_id="u"),
                notices.ResponseDone(
                    response=ResponseInfo(
                        response_id="r",
                        modality="audio",
                        status="completed",
                        item=finished,
                        metadata=options.metadata,
                    )
                ),
            )


@pytest.mark.parametrize("base", ["base_url", "websocket_base_url"])
async def test_it_talks(base: str) -> None:
    host = Host(echo)
    async with running(app(host, settings=Settings(api_key="sesame"))) as at:
        where = {base: f"{'http' if base == 'base_url' else 'ws'}://{at}/v1"}
        async with (
            asyncio.timeout(10),
            AsyncOpenAI(api_key="sesame", **where) as client,  # type: ignore[arg-type]
            client.realtime.connect(model="duplex") as connection,
        ):
            await connection.session.update(
                session={
                    "type": "realtime",
                    "instructions": "Be kind.",
                    "output_modalities": ["audio"],
                    "audio": {
                        "input": {"turn_detection": {"type": "semantic_vad", "interrupt_response": True}},
                        "output": {"voice": "marin"},
                    },
                    "tools": [],
                }
            )
            await connection.input_audio_buffer.append(audio=base64.b64encode(TONE.tobytes()).decode())
            content = [{"type": "input_text", "text": "Hi"}]
            await connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": content}  # type: ignore[typeddict-item]
            )
            await connection.response.create(response={"metadata": {"mine": "7"}})
            seen, sound = [], b""
            async for event in connection:
                seen.append(event.type)
                if event.type == "session.updated":
                    assert event.session.type == "realtime"
                    assert event.session.instructions == "Be kind."
                    assert event.session.audio.output.voice == "robin"
                if event.type == "response.output_audio.delta":
                    sound += base64.b64decode(event.delta)
                if event.type == "response.done":
                    assert event.response.metadata == {"mine": "7"}
                    assert event.response.output[0].content[0].transcript == "Hello."
                    break
        await host.until(lambda: host.open_sessions == 0)
    assert sound == TONE.tobytes()
    assert seen[:3] == ["session.created", "conversation.created", "session.updated"]
    assert "error" not in seen
    assert any(isinstance(event, events.AppendAudio) for event in host.ports[0].events)


async def test_it_waits_in_the_queue() -> None:
    """It knows nothing of our event, passes it on under its own name, and goes on."""
    host = Host(echo, queues=True)
    async with (
        running(app(host)) as at,
        asyncio.timeout(10),
        AsyncOpenAI(api_key="none", base_url=f"http://{at}/v1") as client,
        client.realtime.connect(model="duplex") as connection,
    ):
        await host.until(lambda: bool(host.ports))
        port = host.ports[0]
        port.tell(notices.Queued(position=2, eta_s=None), notices.Queued(position=1, eta_s=4.5))
        await connection.response.create()
        queued = [await connection.recv() for _ in range(2)]
        assert [event.type for event in queued] == ["duplex.queue.updated"] * 2
        assert [(event.position, event.eta_s) for event in queued] == [(2, None), (1, 4.5)]  # type: ignore[union-attr]
        port.begin()
        seen = []
        async for event in connection:
            seen.append(event.type)
            if event.type == "response.done":
                break
    assert seen[:2] == ["session.created", "conversation.created"]
    assert "error" not in seen


async def test_its_handlers_hear_of_the_queue_by_name() -> None:
    host = Host(queues=True)
    positions: list[int] = []
    async with (
        running(app(host)) as at,
        asyncio.timeout(10),
        AsyncOpenAI(api_key="none", base_url=f"http://{at}/v1") as client,
        client.realtime.connect(model="duplex") as connection,
    ):

        @connection.on("duplex.queue.updated")
        def told(event: object) -> None:
            positions.append(event.position)  # type: ignore[attr-defined]

        await host.until(lambda: bool(host.ports))
        host.ports[0].tell(notices.Queued(position=3, eta_s=None))
        host.ports[0].begin()
        host.ports[0].close("client", "Over.")
        await connection.dispatch_events()
    assert positions == [3]
