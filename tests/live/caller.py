"""A person on the line: the stock `openai` client, a microphone that never stops, and all that was received."""

from __future__ import annotations

import asyncio
import base64
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from websockets.exceptions import ConnectionClosed

from duplex.audio.pcm import Samples, from_bytes
from tests.transport.schema import checked_text

RATE_HZ = 24_000
FRAME = RATE_HZ // 50
BYTES_PER_MS = 2 * RATE_HZ // 1000
AUDIBLE = 328
"""-40 dBFS."""

Event = dict[str, Any]


class Caller:
    """One conversation; made by `calling`. What was received is in `events`, each checked against OpenAI's own types.

    Attributes:
        connection: the stock client's.
        events: in order.
        lost: how the connection ended, once `over` is set.
    """

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Event] = []
        self.lost: ConnectionClosed | None = None
        self.over = asyncio.Event()
        self._changed = asyncio.Event()
        self._to_say: list[Samples] = []
        self._noise = np.random.default_rng(0)

    async def read(self) -> None:
        """Receive until the connection is gone."""
        try:
            while True:
                raw = await self.connection.recv_bytes()
                event = checked_text(raw)
                assert self.connection.parse_event(raw).type == event["type"]
                self.events.append(event)
                self._changed.set()
        except ConnectionClosed as end:
            self.lost = end
            self.over.set()
            self._changed.set()

    async def play(self) -> None:
        """The microphone: a frame each 20 ms, speech where there is some to say, else a quiet room."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                frame = self._to_say.pop(0) if self._to_say else self._room(FRAME)
                await self.append(frame)
                due += 0.02
                await asyncio.sleep(max(0.0, due - loop.time()))
        except ConnectionClosed:
            return

    def _room(self, samples: int) -> Samples:
        return self._noise.normal(0.0, 16.0, samples).astype(np.int16)

    def say(self, samples: Samples) -> None:
        """Speak int16 [n] at 24 kHz from the next frame on."""
        whole = np.concatenate((samples, self._room(-len(samples) % FRAME)))
        self._to_say += [whole[start : start + FRAME] for start in range(0, len(whole), FRAME)]

    async def append(self, samples: Samples) -> None:
        """Send audio now."""
        await self.connection.input_audio_buffer.append(audio=base64.b64encode(samples.tobytes()).decode())

    async def until(self, wanted: str | Callable[[Event], bool], *, after: int = 0, timeout_s: float = 20.0) -> Event:
        """The first event from index `after` on that has this type, or of which `wanted` is true.

        Fails where an error comes first that is about no event which the test has named, where the connection ends, or
        after `timeout_s`.
        """
        seen = after
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    for event in self.events[seen:]:
                        seen += 1
                        if event["type"] == wanted or (callable(wanted) and wanted(event)):
                            return event
                        assert event["type"] != "error" or event["error"]["event_id"], event
                    assert self.lost is None, f"waiting for {wanted}, but {self.lost}"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no {wanted} in {timeout_s:g} s; there were {self.types(after)}") from None

    def vanish(self, *, reset: bool) -> None:
        """Be gone, without a close frame: the TCP stream ends, or with `reset` breaks."""
        transport = self.connection._connection.transport
        if reset:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def error(self, event_id: str) -> Event:
        """Details of the error about the client's event of this id."""
        told = await self.until(lambda event: event["type"] == "error" and event["error"]["event_id"] == event_id)
        details: Event = told["error"]
        return details

    async def update(self, **session: Any) -> Event:
        """Change the session's settings; returns them as they are now."""
        mark = len(self.events)
        await self.connection.session.update(session={"type": "realtime", **session})  # type: ignore[arg-type]
        told: Event = (await self.until("session.updated", after=mark))["session"]
        return told

    async def write(self, text: str) -> Event:
        """Put a typed message into the conversation."""
        mark = len(self.events)
        await self.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        )
        item: Event = (await self.until("conversation.item.done", after=mark))["item"]
        return item

    async def ask(self, text: str, **response: Any) -> Event:
        """Write, and have it answered; returns the finished response."""
        mark = len(self.events)
        await self.write(text)
        await self.connection.response.create(response=response)  # type: ignore[arg-type]
        return await self.done(after=mark)

    async def done(self, *, after: int = 0) -> Event:
        """The next response that ends."""
        response: Event = (await self.until("response.done", after=after))["response"]
        return response

    async def retrieve(self, item_id: str) -> Event:
        """An item as the conversation has it now."""
        mark = len(self.events)
        await self.connection.conversation.item.retrieve(item_id=item_id)
        item: Event = (await self.until("conversation.item.retrieved", after=mark))["item"]
        return item

    def types(self, after: int = 0) -> list[str]:
        """What came, deltas of a kind in a row as one."""
        types = [event["type"] for event in self.events[after:]]
        return [kind for index, kind in enumerate(types) if not index or kind != types[index - 1]]

    def sound(self, response_id: str) -> Samples:
        """The audio of an answer, int16 [n] at 24 kHz."""
        return from_bytes(
            b"".join(
                base64.b64decode(event["delta"])
                for event in self.events
                if event["type"] == "response.output_audio.delta" and event["response_id"] == response_id
            )
        )


@asynccontextmanager
async def calling(url: str, *, microphone: bool = False, **session: Any) -> AsyncIterator[Caller]:
    """Connect to a server, configure the session if anything is given for it, and talk.

    Args:
        url: of the server, as it prints it.
        microphone: whether audio is sent all the time.
        session: content of a ``session.update``.
    """
    async with (
        AsyncOpenAI(base_url=f"{url}v1", api_key="none") as client,
        client.realtime.connect(model="duplex", max_retries=0) as connection,
    ):
        caller = Caller(connection)
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(caller.read())]
                await caller.until("conversation.created")
                if session:
                    await caller.update(**session)
                if microphone:
                    running.append(tasks.create_task(caller.play()))
                yield caller
                for task in running:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None


def is_audible(samples: Samples) -> bool:
    """Whether any 10 ms of it are louder than -40 dBFS."""
    windows = samples[: len(samples) // 240 * 240].reshape(-1, 240).astype(np.float64)
    return bool((np.sqrt((windows**2).mean(axis=1)) > AUDIBLE).any())
