"""Every state in which a client can be gone, and how to get a session there quickly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from openai import AsyncOpenAI

from duplex.audio.pcm import Samples
from tests.live.caller import RATE_HZ, Caller, calling

State = Callable[[Caller, Samples], Awaitable[None]]


async def idle(_caller: Caller, _sound: Samples) -> None:
    """Greeted, and nothing said."""


async def speaking(caller: Caller, sound: Samples) -> None:
    """In the middle of a sentence."""
    await caller.append(sound[: RATE_HZ * 3 // 4])
    await caller.until("input_audio_buffer.speech_started")


async def flooding(caller: Caller, sound: Samples) -> None:
    """With a minute of speech on its way, most of which waits."""
    for _ in range(20):
        await caller.append(sound)


async def pausing(caller: Caller, sound: Samples) -> None:
    """After a sentence, while it is not yet known to be one."""
    await caller.append(sound)
    await caller.append(sound[:1].repeat(RATE_HZ // 5))
    await caller.until("input_audio_buffer.speech_started")
    await asyncio.sleep(0.1)  # There is no event for it.
    assert "input_audio_buffer.speech_stopped" not in caller.types()


async def committed(caller: Caller, sound: Samples) -> None:
    """The turn is over; its words are not known yet."""
    await caller.append(sound)
    await caller.append(sound[:1].repeat(RATE_HZ))
    await caller.until("input_audio_buffer.committed")


async def thinking(caller: Caller, _sound: Samples) -> None:
    """An answer is asked for, and nothing of it has come."""
    await caller.write("Tell me a long story about a dog who wanted to see the world.")
    await caller.connection.response.create()
    await caller.until("response.created")


async def listening(caller: Caller, sound: Samples) -> None:
    """Audio of the answer is being sent."""
    await thinking(caller, sound)
    await caller.until("response.output_audio.delta")


async def writing(caller: Caller, _sound: Samples) -> None:
    """Words of an answer without audio are being sent."""
    await caller.write("Tell me a long story about a dog who wanted to see the world.")
    await caller.connection.response.create(response={"output_modalities": ["text"]})
    await caller.until("response.output_text.delta")


async def interrupting(caller: Caller, sound: Samples) -> None:
    """Speaking into the answer."""
    await listening(caller, sound)
    await speaking(caller, sound)


async def answered(caller: Caller, _sound: Samples) -> None:
    """All of the answer is sent; the end of it is not played yet."""
    await caller.ask("Hello", max_output_tokens=3)


STATES: dict[str, State] = {
    state.__name__: state
    for state in (
        idle,
        speaking,
        flooding,
        pausing,
        committed,
        thinking,
        listening,
        writing,
        interrupting,
        answered,
    )
}


async def vanish(url: str, state: State, sound: Samples, *, reset: bool) -> None:
    """Open a session, bring it into a state, and be gone without a word."""
    async with calling(url) as caller:
        await state(caller, sound)
        caller.vanish(reset=reset)


@asynccontextmanager
async def ungreeted(url: str) -> AsyncIterator[Caller]:
    """A session of which nothing has been read."""
    async with (
        AsyncOpenAI(base_url=f"{url}v1", api_key="none") as client,
        client.realtime.connect(model="duplex", max_retries=0) as connection,
    ):
        yield Caller(connection)


async def come_and_go(url: str, *, reset: bool) -> None:
    """Be gone as soon as the handshake is through."""
    async with ungreeted(url) as caller:
        await asyncio.sleep(0)
        caller.vanish(reset=reset)
