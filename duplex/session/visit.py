"""One arrival, from the queue to the end of its first connection (`port.LeasedPort`)."""

from __future__ import annotations

import asyncio

from duplex.session.attachment import Attachment
from duplex.session.events import ClientEvent
from duplex.session.notices import Closed, Notice, Queued
from duplex.session.port import Audio, Entry, Terms


class Visit:
    """Stands for a session that may not have begun yet; from then on it is the session's first connection.

    While it waits, `receive` tells its position, the newest only, and `send` waits with its event: the transport then
    does not read on, and the network presses back. There is nothing to resume before the session has begun.

    Args:
        session_id: of the session that it will be.
        terms: how the transport wants to hold it.
        token: what its client will have to show to resume it.
        grace_s: how long it will wait for a client that was cut off.
    """

    generation = 0
    resynced = False

    def __init__(self, *, session_id: str, terms: Terms = Terms(), token: str = "", grace_s: float = 0.0) -> None:
        self.session_id = session_id
        self.terms = terms
        self.token = token
        self.grace_s = grace_s
        self._position: Queued | None = None
        self._admitted = False
        self._attachment: Attachment | None = None
        self._told = False  # anything of its session
        self._over = False
        self._farewell: Closed | None = None
        self._decided = asyncio.Event()
        self._settled = asyncio.Event()
        self._news = asyncio.Event()

    @property
    def wire(self) -> object:
        return self.terms.wire

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
        self.end()

    # For whoever runs its session -------------------------------------------------------------

    async def admitted(self) -> bool:
        """Wait until it may begin; False where it never will."""
        await self._decided.wait()
        return self._admitted and not self._over

    def begin(self, attachment: Attachment) -> None:
        """From now on it is that session's first connection."""
        self._attachment = attachment
        self._settled.set()
        self._news.set()

    def end(self) -> None:
        """Nothing begins any more. For one that has begun it says nothing."""
        self._over = True
        self._position = None
        for event in (self._decided, self._settled, self._news):
            event.set()

    def detach(self) -> bool:
        """The connection is gone; True where the session may outlive it: its client knows that it has begun."""
        if self._attachment is None:
            self.end()
        elif self._told:
            return self._attachment.detach()
        else:
            self._attachment.abandon()
        return False

    # For the transport ------------------------------------------------------------------------

    async def send(self, event: ClientEvent) -> bool:
        """See `port.SessionPort.send`."""
        await self._settled.wait()
        return self._attachment is not None and await self._attachment.send(event)

    async def receive(self) -> Notice | Audio | None:
        """See `port.SessionPort.receive`."""
        entry = await self.next()
        return entry.told if entry is not None else None

    async def next(self) -> Entry | None:
        """`Queued` for each new position, then everything of the session; None after `Closed`."""
        while self._attachment is None:
            if self._position is not None:
                told, self._position = self._position, None
                return Entry(told=told)
            if self._over:
                farewell, self._farewell = self._farewell, None
                return Entry(told=farewell) if farewell is not None else None
            self._news.clear()
            await self._news.wait()
        entry = await self._attachment.next()
        self._told = self._told or entry is not None
        return entry

    def acknowledge(self, sequence: int) -> None:
        """See `port.LeasedPort.acknowledge`."""
        if self._attachment is not None:
            self._attachment.acknowledge(sequence)
