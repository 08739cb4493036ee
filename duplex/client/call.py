"""A conversation that is going on: a microphone that plays, a reader, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from duplex.audio.pcm import Samples
from duplex.client.conversation import Conversation
from duplex.client.events import Event
from duplex.client.player import RATE_HZ, ROOM_DBFS, Microphone
from duplex.client.playout import Playout
from duplex.client.realtime import Realtime
from duplex.errors import TalkError

Listener = Callable[[Event, float], None]


class Call:
    """One open conversation; made by `call`. Its clock is the event loop's.

    Attributes:
        microphone, playout, conversation: as they stand.
        started_s: when the microphone began.
        progress: number of events received.
    """

    def __init__(self, *, realtime: Realtime, microphone: Microphone, listener: Listener | None) -> None:
        self.microphone = microphone
        self.playout = Playout(rate_hz=RATE_HZ)
        self.conversation = Conversation(microphone=microphone, playout=self.playout)
        self.started_s = asyncio.get_running_loop().time()
        self.progress = 0
        self._realtime = realtime
        self._listener = listener
        self._changed = asyncio.Event()
        self._lost: TalkError | None = None

    @property
    def now(self) -> float:
        """Seconds on the clock of every time in this conversation."""
        return asyncio.get_running_loop().time()

    def say(self, samples: Samples) -> int:
        """Speak int16 [n] at 24 kHz from the next frame on; returns the position of its first sample."""
        return self.microphone.say(samples)

    async def send(self, event: Mapping[str, Any]) -> None:
        """Send a client event. Raises TalkError where the connection is gone."""
        await self._realtime.send(event)

    async def hush(self) -> None:
        """Stop the answer, as a listener who has heard enough. Raises TalkError where the connection is gone."""
        for message in self.conversation.hush(self.now):
            await self.send(message)

    async def until(self, ready: Callable[[], bool], *, timeout_s: float) -> bool:
        """Wait until `ready` says so; it is asked after each event and each frame. False after `timeout_s`.

        Raises:
            TalkError: the connection is gone.
        """
        deadline_s = self.now + timeout_s
        while not ready():
            if self._lost is not None:
                raise self._lost
            if self.now >= deadline_s:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return True

    async def pause(self, seconds: float) -> None:
        """Let time pass. Raises TalkError where the connection is gone."""
        await self.until(lambda: False, timeout_s=seconds)

    async def play(self) -> None:
        """Play the microphone until the connection is gone."""
        try:
            await self.microphone.play(
                self._realtime.append,
                clock=asyncio.get_running_loop().time,
                sleep=asyncio.sleep,
                played=self._changed.set,
            )
        except TalkError as error:
            self._lose(error)

    async def read(self) -> None:
        """Take events until the connection is gone."""
        try:
            async for event, now in self._realtime.events():
                for message in self.conversation.receive(event, now):
                    await self._realtime.send(message)
                if self._listener is not None:
                    self._listener(event, now)
                self.progress += 1
                self._changed.set()
        except TalkError as error:
            self._lose(error)

    def _lose(self, error: TalkError) -> None:
        self._lost = self._lost or error
        self._changed.set()


@asynccontextmanager
async def call(
    *,
    url: str,
    api_key: str | None = None,
    session: Mapping[str, Any] | None = None,
    room_dbfs: float = ROOM_DBFS,
    timeout_s: float = 10.0,
    listener: Listener | None = None,
) -> AsyncIterator[Call]:
    """Open a conversation: connect, wait for the session, set it up, and only then begin to send the room's noise.

    Args:
        url: as `Realtime.open` takes it.
        session: content of a ``session.update``, or None to take the server's own settings.
        room_dbfs: level of the room's noise.
        timeout_s: for connecting, and again for each of the session's first replies.
        listener: told of each event after it was taken.

    Raises:
        TalkError: see `Realtime.open`; or the server refused the session or its settings.
    """
    realtime = await Realtime.open(url=url, api_key=api_key, timeout_s=timeout_s)
    try:
        going = Call(realtime=realtime, microphone=Microphone(room_dbfs=room_dbfs), listener=listener)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(going.read())]
            await _begin(going, session, timeout_s)
            going.started_s = going.now
            running.append(tasks.create_task(going.play()))
            yield going
            for task in running:
                task.cancel()
    except BaseExceptionGroup as group:
        # The tasks report their losses to `Call`, so what is in the group came from the body alone.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    finally:
        await realtime.close()


async def _patiently(going: Call, ready: Callable[[], bool], timeout_s: float) -> bool:
    """As `Call.until`, with `timeout_s` from the newest event on: who waits in a queue is told so again and again."""
    while not ready():
        known = going.progress

        def news(known: int = known) -> bool:
            return going.progress != known

        if not await going.until(news, timeout_s=timeout_s):
            return False
    return True


async def _begin(going: Call, session: Mapping[str, Any] | None, timeout_s: float) -> None:
    conversation = going.conversation
    answered = await _patiently(going, lambda: bool(conversation.session or conversation.errors), timeout_s)
    if conversation.errors:
        raise TalkError(f"the server refused the conversation: {conversation.errors[0]}")
    if not answered:
        raise TalkError(f"the server opened no session within {timeout_s:g} s; is it busy?")
    if session is None:
        return
    before = conversation.session
    await going.send({"type": "session.update", "session": {"type": "realtime", **session}})
    answered = await going.until(
        lambda: conversation.session is not before or bool(conversation.errors), timeout_s=timeout_s
    )
    if conversation.errors:
        raise TalkError(f"the server refused the settings: {conversation.errors[0]}")
    if not answered:
        raise TalkError(f"the server did not answer the settings within {timeout_s:g} s; is it busy?")
