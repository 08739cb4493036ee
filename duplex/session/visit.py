"""One arrival, from the queue to the end of its session: what its transport holds (`port.SessionPort`)."""

from __future__ import annotations

import asyncio

from duplex.session.events import ClientEvent
from duplex.session.notices import Closed, Notice, Queued
from duplex.session.port import Audio, SessionPort


class Visit:
    """Stands for a session that may not have begun yet.

    While it waits, `receive` tells its position, the newest only, and `send` waits with its event: the transport then
    does not read on, and the network presses back.

    Args:
        session_id: of the session that it will be.
    """

    def __init__(self, *, session_id: str) -> None:
        self._session_id = session_id
        self._position: Queued | None = None
        self._admitted = False
        self._port: SessionPort | None = None
        self._over = False
        self._farewell: Closed | None = None
        self._decided = asyncio.Event()
        self._settled = asyncio.Event()
        self._news = asyncio.Event()

    @property
    def session_id(self) -> str:
        return self._session_id

    # For whoever admits -----------------------------------------------------------------------

    def place(self, position: int, eta_s: float | None) -> None:
        """It waits, at this position."""
        self._position = Queued(position=position, eta_s=eta_s)
        self._news.set()

    def admit(self) -> None:
        """It may begin."""
        self._admitted = True
        self._position = None
        self._decided.set()

    def dismiss(self, closed: Closed) -> None:
        """It is sent away: `closed` is the last that it hears."""
        self._farewell = closed
        self._end()

    # For whoever runs its session -------------------------------------------------------------

    async def admitted(self) -> bool:
        """Wait until it may begin; False where it never will."""
        await self._decided.wait()
        return self._admitted and not self._over

    def begin(self, port: SessionPort) -> None:
        """From now on it is that session."""
        self._port = port
        self._settled.set()
        self._news.set()

    def leave(self) -> None:
        """The transport is through with waiting. One that has begun is closed by its runner instead."""
        if self._port is None:
            self._end()

    def _end(self) -> None:
        self._over = True
        self._position = None
        for event in (self._decided, self._settled, self._news):
            event.set()

    # For the transport ------------------------------------------------------------------------

    async def send(self, event: ClientEvent) -> None:
        """Hand an event in; waits until the session has begun and has room for it. After the end it is ignored."""
        await self._settled.wait()
        if self._port is not None:
            await self._port.send(event)

    async def receive(self) -> Notice | Audio | None:
        """`Queued` for each new position, then everything of the session; None after `Closed`."""
        while self._port is None:
            if self._position is not None:
                told, self._position = self._position, None
                return told
            if self._over:
                farewell, self._farewell = self._farewell, None
                return farewell
            self._news.clear()
            await self._news.wait()
        return await self._port.receive()
