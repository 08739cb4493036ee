"""As many sessions as there are places, all at once, and one more."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
from openai import AsyncOpenAI
from websockets.exceptions import InvalidStatus

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


async def refusal(url: str) -> InvalidStatus | None:
    """What a further client is told."""
    async with AsyncOpenAI(base_url=f"{url}v1", api_key="none") as client:
        try:
            async with client.realtime.connect(model="duplex", max_retries=0):
                return None
        except InvalidStatus as refused:
            return refused


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

            refused = await refusal(server.url)
            assert isinstance(refused, InvalidStatus)
            response = refused.response
            assert response.status_code == 503
            assert int(response.headers["Retry-After"]) >= 1
            error = json.loads(response.body)["error"]
            assert error["code"] == "server_full"
            assert error["message"]

        assert await server.until(lambda: server.metrics()["duplex_sessions"] == 3)
        async with calling(server.url, output_modalities=["text"], max_output_tokens=4) as admitted:
            assert (await admitted.ask("Hello"))["output"]
