"""As many sessions as there are places, all at once, and one more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest
from openai import AsyncOpenAI

from duplex.audio.pcm import Samples
from latency_bench.clips import Clip
from tests.live.caller import Caller, calling, is_audible
from tests.live.process import Process
from tests.models.speech import word_error_rate

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]

SAID = ("capital", "moon", "plants", "book")
REMEMBERED = ("Otto", "Berta", "Cesar", "Dora")


async def converse(caller: Caller, clip: Clip, sound: Samples, name: str) -> None:
    """A spoken turn, then written ones, each of which finds all before it in the session's own prefix cache."""
    caller.say(sound)
    spoken = await caller.done()
    heard = await caller.until("conversation.item.input_audio_transcription.completed")
    assert word_error_rate([clip.text], [heard["transcript"]]) <= 0.1
    assert is_audible(caller.sound(spoken["id"]))
    usages = [spoken["usage"]]
    for text in (f"My name is {name}.", "And what is my name?", "Thank you."):
        answer = await caller.ask(text, output_modalities=["text"], max_output_tokens=8)
        usages.append(answer["usage"])
    for before, now in pairwise(usages):
        cached = now["input_token_details"]["cached_tokens"]
        # What was answered is written into the next prompt again as text, so its last tokens may differ.
        assert cached >= before["input_tokens"] - 2, usages
        assert cached < now["input_tokens"]


@asynccontextmanager
async def waiting(url: str) -> AsyncIterator[Caller]:
    """A further client, that is told its place in the queue."""
    async with (
        AsyncOpenAI(base_url=f"{url}v1", api_key="none") as client,
        client.realtime.connect(model="duplex", max_retries=0) as connection,
    ):
        caller = Caller(connection)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(caller.read())
            assert (await caller.until("duplex.queue.updated"))["position"] == 1
            yield caller
            reading.cancel()


async def test_four_at_once_and_a_fifth(server: Process, clips: dict[str, Clip], spoken: dict[str, Samples]) -> None:
    async with AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(calling(server.url, microphone=True, max_output_tokens=8)) for _ in SAID[1:]
        ]
        async with calling(server.url, microphone=True, max_output_tokens=8) as last:
            async with asyncio.TaskGroup() as tasks:
                for caller, clip, name in zip([*callers, last], SAID, REMEMBERED, strict=True):
                    tasks.create_task(converse(caller, clips[clip], spoken[clip], name))
            assert server.metrics()["duplex_sessions"] == 4

            fifth = await stack.enter_async_context(waiting(server.url))
            assert server.metrics()["duplex_sessions_waiting"] == 1
        await fifth.until("conversation.created")
        assert server.metrics()["duplex_sessions_waiting"] == 0
