"""The one door out of a session: its journal, and whoever waits for the next entry."""

from __future__ import annotations

import asyncio

from duplex.session.fence import Fence
from duplex.session.journal import Journal
from duplex.session.notices import Closed, Notice
from duplex.session.port import Audio, Entry


class Outbox:
    """What the transport is to send, on one event loop.

    Policy: nothing is dropped for want of room; a full outbox means that the client does not read, and its session
    closes. Audio whose fence is retired is taken out.

    Args:
        journal: empty.

    Attributes:
        journal: to be changed through the outbox where a reader may have to wake for it.
        owner: generation of the connection that may take.
    """

    def __init__(self, *, journal: Journal) -> None:
        self.journal = journal
        self.owner = 0
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, told: Notice | Audio) -> bool:
        """Put one in; False where there is no room. `Closed` always finds room and is the last."""
        if self._closed:
            return True
        self._closed = isinstance(told, Closed)
        taken = self.journal.put(told)
        self._wake.set()
        return taken

    def retire(self, fence: Fence) -> int:
        """Take out all audio made under `fence` or an earlier turn of its lane; returns the chunks taken out."""
        return self.journal.retire(fence)

    def hand_over(self, owner: int) -> None:
        """From now on another connection takes; whoever waits for the former one is let go."""
        self.owner = owner
        self._wake.set()

    async def get(self, owner: int) -> Entry | None:
        """The next one; None when `Closed` has been given, or where another connection takes by now."""
        while owner == self.owner:
            entry = self.journal.take()
            if entry is not None:
                return entry
            if self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        return None
