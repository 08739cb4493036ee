"""The Python SDK: a session of the native protocol that survives its connections.

    async with connect("ws://127.0.0.1:8000/v1/duplex") as session:
        await session.add("Why is the sky blue?")
        await session.respond()
        async for event in session:
            ...

A connection that is lost is opened again, and the session resumed: what was missed comes, nothing comes twice, and what
the server had not taken is sent once more. Only a session that is over for good ends the iteration, with a TalkError
where that was not wished for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from duplex.audio.pcm import Samples
from duplex.client.backoff import Backoff
from duplex.client.handshake import Address, session_url
from duplex.client.inbox import Event
from duplex.client.link import Link, Waits
from duplex.errors import TalkError
from duplex.protocol.native import VERSION, client, server
from duplex.protocol.native.item import NewItem
from duplex.protocol.native.settings import SettingsPatch

LEAVE_S = 2.0
"""Patience with the server's last word."""


class Session:
    """One session; made by `connect`. One task may iterate while others send."""

    def __init__(self, *, link: Link) -> None:
        self._link = link

    @property
    def opened(self) -> server.Opened:
        """What the server said when it began. Raises TalkError where it has not."""
        return self._link.opened

    @property
    def queued(self) -> server.Queued | None:
        """The newest that the server said of the queue; None before that, and once the session has begun."""
        return self._link.queued

    @property
    def connections(self) -> int:
        """How many there were so far."""
        return self._link.connections

    @property
    def resumed_s(self) -> float | None:
        """How long the newest resume took, from the first attempt to the server's word; None before any."""
        return self._link.resumed_s

    @property
    def connected(self) -> bool:
        """Whether there is a connection now. Sending works without: it is done when there is one again."""
        return self._link.outbound.connected

    @property
    def silenced_bytes(self) -> int:
        """Audio that came of an answer after it had been interrupted; the iteration does not give it."""
        return self._link.silenced_bytes

    @property
    def lost(self) -> TalkError | None:
        """Why the session is over; None while it is not, and where that was wished for."""
        return self._link.over

    # The four verbs -------------------------------------------------------------------------

    async def send_audio(self, samples: Samples) -> None:
        """update: the microphone goes on, int16 [n] at `terms.input_hz`."""
        step = self.opened.terms.input_hz // 2
        for start in range(0, len(samples), step):
            self._check()
            await self._link.outbound.audio(samples[start : start + step])

    async def update(self, settings: SettingsPatch, *, id: str | None = None) -> None:
        """update: other settings, from the next turn on."""
        await self._command(client.Update(settings=settings, id=id))

    async def add(
        self,
        text: str,
        *,
        role: Literal["user", "assistant", "system"] = "user",
        item_id: str = "",
        after: str | None = None,
        id: str | None = None,
    ) -> None:
        """update: a message of text enters the conversation."""
        await self._command(client.Update(item=NewItem(role=role, text=text, item_id=item_id), after=after, id=id))

    async def signal(self, signal: client.AnySignal, *, id: str | None = None) -> None:
        """signal: something is to happen now."""
        await self._command(client.Signal(signal=signal, id=id))

    async def respond(self, options: client.Respond = client.Respond()) -> None:
        """signal: answer now."""
        await self.signal(options)

    async def commit(self) -> None:
        """signal: the user's turn ends here."""
        await self.signal(client.Commit())

    async def cancel(self) -> None:
        """signal: stop answering."""
        await self.signal(client.Cancel())

    async def close(self) -> None:
        """close: the session is over; the server's last word ends the iteration."""
        self._link.closing = True
        await self._command(client.Close())

    async def played(self, item_id: str, samples: int) -> None:
        """So much of an answer has been played. Only where the session was opened with acknowledged playback."""
        await self._link.outbound.played(client.Played(item_id=item_id, samples=samples))

    async def leave(self, running: asyncio.Task[None]) -> None:
        """Close the session if it is not over yet; waits 2 s at most for the server's last word."""
        self._link.deafen()
        if not running.done():
            if self._link.over is None:
                await self.close()
            await asyncio.wait({running}, timeout=LEAVE_S)
            running.cancel()

    async def _command(self, message: client.Update | client.Signal | client.Close) -> None:
        self._check()
        await self._link.outbound.command(message)

    def _check(self) -> None:
        if self._link.over is not None:
            raise self._link.over

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Every event, in order, each once.

        Raises:
            TalkError: the session was lost.
        """
        while (event := await self._link.events.get()) is not None:
            yield event
        self._check()


def _nobody(queued: server.Queued) -> None:
    """Does not want to know."""


@asynccontextmanager
async def connect(
    url: str,
    *,
    api_key: str | None = None,
    input_hz: Literal[16000, 24000] = 24000,
    playback: Literal["acknowledged", "reckoned"] = "reckoned",
    resumable: bool = True,
    settings: SettingsPatch | None = None,
    backoff: Backoff = Backoff(),
    timeout_s: float = 10.0,
    queued: Waits = _nobody,
) -> AsyncIterator[Session]:
    """Open a session, and close it at the end of the block.

    Args:
        url: the server's address; a missing path becomes ``/v1/duplex``.
        input_hz: rate of the audio that will be sent.
        playback: ``acknowledged`` if `Session.played` will be called: then the server sends no more than `ahead_ms` of
            audio that was not, and an interrupted answer's history is what was really heard.
        resumable: whether to go on after a lost connection.
        settings: patch of the server's own.
        timeout_s: for each connection to be made, and answered.
        queued: told each news of the queue, where all places are taken.

    Raises:
        TalkError: no server, a refusal, or no answer; one sentence with the remedy.
    """
    opening = client.Open(
        version=VERSION, input_hz=input_hz, playback=playback, resumable=resumable, settings=settings, id="open"
    )
    link = Link(
        address=Address(url=session_url(url), api_key=api_key, timeout_s=timeout_s),
        opening=opening,
        backoff=backoff,
        waits=queued,
    )
    session = Session(link=link)
    ready = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(link.run(ready), name="duplex session")
            try:
                await ready.wait()
                if session.lost is not None:
                    raise session.lost
                yield session
            finally:
                await session.leave(running)
    except BaseExceptionGroup as group:
        # The task reports its losses to the session, so what is in the group came from the block alone.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
