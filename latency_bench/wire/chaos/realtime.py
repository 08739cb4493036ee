"""A client of OpenAI's protocol that does as it is told."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from duplex.audio.pcm import Samples, to_bytes
from duplex.client.realtime import realtime_url
from latency_bench.wire.chaos.ear import RealtimeEar
from latency_bench.wire.link import Link

_encode = msgspec.json.Encoder().encode

NONSENSE: tuple[tuple[str | bytes, int | None], ...] = (
    ("{", None),
    ('"text"', None),
    ("[" * 50_000, None),
    ('{"type":"input_audio_buffer.explode"}', None),
    ('{"type":"input_audio_buffer.append","audio":"!!!!"}', None),
    ('{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"type":"magic"}}}}}', None),
    ('{"type":"conversation.item.truncate","item_id":"gone","content_index":0,"audio_end_ms":-1}', None),
    ('{"type":"conversation.item.delete","item_id":"gone"}', None),
    (b"\x00\x01" * 480, None),
    ("x" * 300_000, 1009),
)
"""What cannot be taken, and the code of the close that answers it; None where an error does, and all goes on."""


class RealtimeVoice:
    """One session.

    Args:
        ear: told of each event.
    """

    def __init__(self, *, ear: RealtimeEar) -> None:
        self.ear = ear
        self.link: Link
        self.begun = False
        self.queued: int | None = None

    async def connect(self, url: str, *, receive_buffer_bytes: int | None) -> None:
        """See `Link.open`."""
        self.link = await Link.open(realtime_url(url), receive_buffer_bytes=receive_buffer_bytes)

    async def hear(self) -> None:
        """Take one message. Raises LinkLost."""
        event: dict[str, Any] = msgspec.json.decode(await self.link.receive())
        if event["type"] == "duplex.queue.updated":
            self.queued = event["position"]
        self.begun = self.begun or event["type"] == "session.created"
        self.ear.take(event)

    async def idle(self) -> None:
        """Nothing is due."""

    async def speak(self, samples: Samples) -> None:
        """int16 [n] at 24 kHz."""
        await self._say("input_audio_buffer.append", audio=base64.b64encode(to_bytes(samples)).decode("ascii"))

    async def write(self, text: str) -> None:
        """Something in writing, that is to be answered."""
        content = [{"type": "input_text", "text": text}]
        await self._say("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self._say("response.create")

    async def cancel(self) -> None:
        await self._say("response.cancel")

    async def configure(self, instructions: str, silence_ms: int) -> None:
        """Other instructions, and another way to find the end of a turn."""
        detection = (
            {"type": "server_vad", "silence_duration_ms": silence_ms} if silence_ms else {"type": "semantic_vad"}
        )
        session = {"type": "realtime", "instructions": instructions, "audio": {"input": {"turn_detection": detection}}}
        await self._say("session.update", session=session)

    async def forget(self, item_id: str, *, cut_ms: int | None) -> None:
        """Delete an item, or cut an answer."""
        if cut_ms is None:
            await self._say("conversation.item.delete", item_id=item_id)
        else:
            await self._say("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=cut_ms)

    async def babble(self, choice: int) -> int | None:
        """Send nonsense; returns the code of the close that has to follow, if one has to."""
        message, code = NONSENSE[choice % len(NONSENSE)]
        await self.link.send(message)
        return code

    async def leave(self) -> None:
        """Goodbye, in order."""
        await self.link.close()

    async def _say(self, kind: str, **rest: Any) -> None:
        await self.link.send(_encode({"type": kind, **rest}).decode())
