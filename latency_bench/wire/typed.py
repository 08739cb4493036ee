"""A conversation in writing, answered aloud or in writing: the answers with what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from duplex.audio.pcm import Samples, from_bytes
from duplex.client.realtime import Realtime
from duplex.errors import TalkError

STEP_S = 0.1
RATE_HZ = 24_000


@dataclass(slots=True, kw_only=True)
class Reply:
    """One answer.

    Attributes:
        said: its words; `audio`: int16 [n] at 24 kHz.
        first_ms: from ``response.create`` to the first word.
        input_tokens, cached_tokens: of its prompt, as the server counted.
    """

    said: str = ""
    audio: Samples = field(default_factory=lambda: np.zeros(0, np.int16))
    first_ms: float | None = None
    input_tokens: int = 0
    cached_tokens: int = 0


class Typed:
    """One open connection; made by `typed`."""

    def __init__(self, realtime: Realtime) -> None:
        self._realtime = realtime
        self._raw = realtime.raw()

    async def _until(self, *kinds: str, timeout_s: float = 60.0) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(timeout_s):
                async for event in self._raw:
                    if event["type"] in kinds:
                        return event
                    if event["type"] == "error":
                        raise TalkError(f"the server refused: {event['error']['message']}")
        except TimeoutError:
            raise TalkError(f"the server said nothing for {timeout_s:g} s; is it busy?") from None
        raise TalkError("the conversation ended")

    async def begin(self, session: Mapping[str, Any]) -> None:
        """Wait for the session and set it up."""
        await self._until("session.created")
        await self._realtime.send({"type": "session.update", "session": {"type": "realtime", **session}})
        await self._until("session.updated")

    async def ask(self, text: str) -> Reply:
        """Write `text`; returns the whole answer. Raises TalkError where it fails."""
        part = {"type": "input_text", "text": text}
        item = {"type": "message", "role": "user", "content": [part]}
        await self._realtime.send({"type": "conversation.item.create", "item": item})
        await self._realtime.send({"type": "response.create"})
        asked_s, reply, audio = asyncio.get_running_loop().time(), Reply(), bytearray()
        words = ("response.output_text.delta", "response.output_audio_transcript.delta")
        while True:
            event = await self._until(*words, "response.output_audio.delta", "response.done")
            if event["type"] in words:
                if reply.first_ms is None:
                    reply.first_ms = (asyncio.get_running_loop().time() - asked_s) * 1000
                reply.said += event["delta"]
            elif event["type"] == "response.output_audio.delta":
                audio += event["delta"]
            else:
                usage = event["response"]["usage"]
                reply.input_tokens = usage["input_tokens"]
                reply.cached_tokens = usage["input_token_details"]["cached_tokens"]
                reply.audio = from_bytes(bytes(audio))
                return reply

    async def recognise(self, samples: Samples) -> str:
        """What the server hears in int16 [n] at 24 kHz; the session must have no turn detection."""
        step = round(STEP_S * RATE_HZ)
        for start in range(0, len(samples), step):
            await self._realtime.append(samples[start : start + step])
        await self._realtime.send({"type": "input_audio_buffer.commit"})
        event = await self._until("conversation.item.input_audio_transcription.completed")
        return str(event["transcript"])


@asynccontextmanager
async def typed(*, url: str, api_key: str | None = None, session: Mapping[str, Any]) -> AsyncIterator[Typed]:
    """Open a conversation with these settings. Raises TalkError where the server refuses."""
    realtime = await Realtime.open(url=url, api_key=api_key)
    try:
        going = Typed(realtime)
        await going.begin(session)
        yield going
    finally:
        await realtime.close()
