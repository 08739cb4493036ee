"""The one door out of a session: notices and audio in order, bounded, and without anything of an old turn."""

from __future__ import annotations

import asyncio
from collections import deque

from duplex.session.fence import Fence
from duplex.session.notices import Closed, Notice
from duplex.session.port import Audio


class Outbox:
    """What the transport is to send, on one event loop.

    Policy: nothing is dropped for want of room; a full outbox means that the client does not read, and its session
    closes. Audio whose fence is retired is taken out.

    Args:
        capacity: notices and audio chunks held.
    """

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[Notice | Audio] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Notice | Audio) -> bool:
        """Put one in; False where there is no room. `Closed` always finds room and is the last."""
        if self._closed:
            return True
        if isinstance(item, Closed):
            self._closed = True
        elif len(self._items) >= self._capacity:
            return False
        self._items.append(item)
        self._wake.set()
        return True

    def retire(self, fence: Fence) -> int:
        """Take out all audio made under `fence` or an earlier turn of its lane; returns the chunks taken out."""
        kept = deque(item for item in self._items if not (isinstance(item, Audio) and _stale(item.fence, fence)))
        dropped = len(self._items) - len(kept)
        self._items = kept
        return dropped

    async def get(self) -> Notice | Audio | None:
        """The next one; None when `Closed` has been given."""
        while not self._items:
            if self._closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        return self._items.popleft()


def _stale(made_under: Fence, retired: Fence) -> bool:
    return made_under == retired or retired.outdates(made_under)
