"""A conversation over the OpenAI Realtime protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from duplex.audio.pcm import Samples
from duplex.client.dialogue import Dialogue, going
from duplex.client.events import Event
from duplex.client.observer import Observer
from duplex.client.player import ROOM_DBFS
from duplex.client.realtime import Realtime
from duplex.client.realtime_reader import RealtimeReader
from duplex.errors import TalkError

Listener = Callable[[Event, float], None]


class Call(Dialogue):
    """One open conversation; made by `call`.

    Args:
        realtime: the connection.
        listener: told of each event after it was taken.
    """

    def __init__(
        self, *, realtime: Realtime, room_dbfs: float, observer: Observer | None, listener: Listener | None
    ) -> None:
        super().__init__(room_dbfs=room_dbfs, observer=observer)
        self._realtime = realtime
        self._reader = RealtimeReader(self.conversation)
        self._listener = listener

    async def send(self, event: Mapping[str, Any]) -> None:
        """Send a client event. Raises TalkError where the connection is gone."""
        await self._realtime.send(event)

    async def append(self, samples: Samples) -> None:
        """See `Dialogue.append`."""
        await self._realtime.append(samples)

    async def answer(self) -> None:
        """See `Dialogue.answer`."""
        await self.send({"type": "input_audio_buffer.commit"})
        await self.send({"type": "response.create"})

    async def hush(self) -> None:
        """Stop the answer, as a listener who has heard enough. Raises TalkError where the connection is gone."""
        for message in self._reader.hush(self.now):
            await self.send(message)

    async def listen(self) -> None:
        """See `Dialogue.listen`."""
        async for event, now in self._realtime.events():
            for message in self._reader.receive(event, now):
                await self._realtime.send(message)
            if self._listener is not None:
                self._listener(event, now)
            self.news()

    async def begin(self, session: Mapping[str, Any] | None, timeout_s: float) -> None:
        """Wait for the session, and set it up; see `call`."""
        conversation = self.conversation
        answered = await self._patiently(lambda: bool(conversation.session or conversation.errors), timeout_s)
        if conversation.errors:
            raise TalkError(f"the server refused the conversation: {conversation.errors[0]}")
        if not answered:
            raise TalkError(f"the server opened no session within {timeout_s:g} s; is it busy?")
        if session is None:
            return
        before = conversation.session
        await self.send({"type": "session.update", "session": {"type": "realtime", **session}})
        answered = await self.until(
            lambda: conversation.session is not before or bool(conversation.errors), timeout_s=timeout_s
        )
        if conversation.errors:
            raise TalkError(f"the server refused the settings: {conversation.errors[0]}")
        if not answered:
            raise TalkError(f"the server did not answer the settings within {timeout_s:g} s; is it busy?")

    async def _patiently(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """As `until`, with `timeout_s` from the newest event on: who waits in a queue is told so again and again."""
        while not ready():
            known = self.progress

            def news(known: int = known) -> bool:
                return self.progress != known

            if not await self.until(news, timeout_s=timeout_s):
                return False
        return True


@asynccontextmanager
async def call(
    *,
    url: str,
    api_key: str | None = None,
    session: Mapping[str, Any] | None = None,
    room_dbfs: float = ROOM_DBFS,
    timeout_s: float = 10.0,
    listener: Listener | None = None,
    observer: Observer | None = None,
) -> AsyncIterator[Call]:
    """Open a conversation: connect, wait for the session, set it up, and only then begin to send the room's noise.

    Args:
        url: as `Realtime.open` takes it.
        session: content of a ``session.update``, or None to take the server's own settings.
        room_dbfs: level of the room's noise.
        timeout_s: for connecting, and again for each of the session's first replies.
        listener: told of each event after it was taken.
        observer: told of the words.

    Raises:
        TalkError: see `Realtime.open`; or the server refused the session or its settings.
    """
    realtime = await Realtime.open(url=url, api_key=api_key, timeout_s=timeout_s)
    try:
        made = Call(realtime=realtime, room_dbfs=room_dbfs, observer=observer, listener=listener)

        async def begin() -> None:
            await made.begin(session, timeout_s)

        async with going(made, begin=begin):
            yield made
    finally:
        await realtime.close()
