"""A conversation over the native protocol: it survives its connections, and the server hears what was played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duplex.audio.pcm import Samples
from duplex.client.dialogue import Dialogue, going
from duplex.client.native_reader import NativeReader
from duplex.client.observer import Observer
from duplex.client.player import ROOM_DBFS
from duplex.client.playout import Dropped
from duplex.client.session import Session, connect
from duplex.errors import TalkError
from duplex.protocol.native import client, server
from duplex.protocol.native.settings import SettingsPatch

REPORT_S = 0.1
"""Time between two words of how much of an answer has been played."""


class NativeCall(Dialogue):
    """One open conversation; made by `native_call`.

    Args:
        session: with acknowledged playback.
    """

    def __init__(self, *, session: Session, room_dbfs: float, observer: Observer | None) -> None:
        super().__init__(room_dbfs=room_dbfs, observer=observer)
        self._session = session
        self._reader = NativeReader(self.conversation)
        self._told: dict[str, int] = {}  # samples played of each answer, as the server was told

    async def append(self, samples: Samples) -> None:
        """See `Dialogue.append`."""
        await self._session.send_audio(samples)

    async def answer(self) -> None:
        """See `Dialogue.answer`."""
        await self._session.commit()
        await self._session.respond()

    async def listen(self) -> None:
        """See `Dialogue.listen`."""
        stale_bytes = 0
        async for event in self._session:
            dropped = self._reader.receive(event, self.now)
            if dropped is not None:
                await self._cut(dropped)
            if self._session.silenced_bytes != stale_bytes:
                self._note_stale(self._session.silenced_bytes - stale_bytes)
                stale_bytes = self._session.silenced_bytes
            self.news()
        raise TalkError("the server has closed the session")

    def _note_stale(self, nbytes: int) -> None:
        """Audio has come of an answer after its interruption."""
        for turn in reversed(self.conversation.turns):
            if turn.interrupted_s is not None:
                turn.stale_bytes += nbytes
                turn.audio_bytes += nbytes
                return

    async def _cut(self, dropped: Dropped) -> None:
        """Say how far the listener was, and ask what of the answer was heard then."""
        await self._tell(dropped.item_id, dropped.played)
        await self._session.signal(client.Retrieve(item_id=dropped.item_id))

    async def report(self) -> None:
        """Say how much has been played, as long as the conversation goes on."""
        while True:
            await asyncio.sleep(REPORT_S)
            for turn in self.conversation.turns[-2:]:
                if turn.item_id:
                    await self._tell(turn.item_id, self.playout.played(turn.item_id, self.now))

    async def _tell(self, item_id: str, samples: int) -> None:
        if samples > self._told.get(item_id, 0):
            self._told[item_id] = samples
            await self._session.played(item_id, samples)


@asynccontextmanager
async def native_call(
    *,
    url: str,
    api_key: str | None = None,
    settings: SettingsPatch | None = None,
    room_dbfs: float = ROOM_DBFS,
    timeout_s: float = 10.0,
    observer: Observer | None = None,
) -> AsyncIterator[NativeCall]:
    """Open a conversation, and begin to send the room's noise.

    Args:
        url, api_key, settings, timeout_s: as `session.connect` takes them.
        room_dbfs: level of the room's noise.
        observer: told of the words.

    Raises:
        TalkError: see `session.connect`; or the server refused the settings.
    """
    watching = observer or Observer()

    def queued(news: server.Queued) -> None:
        watching.queued(news.position, news.eta_s)

    async with connect(
        url,
        api_key=api_key,
        input_hz=24000,
        playback="acknowledged",
        settings=settings,
        timeout_s=timeout_s,
        queued=queued,
    ) as session:
        made = NativeCall(session=session, room_dbfs=room_dbfs, observer=observer)
        async with going(made, made.report):
            if settings is not None:
                conversation = made.conversation
                await made.until(lambda: made.progress > 1 or bool(conversation.errors), timeout_s=timeout_s)
                if conversation.errors:
                    raise TalkError(f"the server refused the settings: {conversation.errors[0]}")
            yield made
