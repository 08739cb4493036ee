"""Who waits for a slot, in order of arrival. Pure.

Whoever has just given a slot back is awake, and those who wait are not: without a line it takes the slot again for its
next request, and a request that waits does so until nobody else wants anything.
"""

from __future__ import annotations

from collections.abc import Callable


class Line:
    """Those who wait, each for a conversation. Callers hold the lock that they guard this with.

    Args:
        could_run: whether a request of this conversation would get a slot now.
    """

    def __init__(self, *, could_run: Callable[[str], bool]) -> None:
        self._could_run = could_run
        self._waiting: dict[object, str] = {}

    def join(self, who: object, session_id: str) -> None:
        """Wait behind all the others."""
        self._waiting[who] = session_id

    def leave(self, who: object) -> None:
        """Wait no more: whoever comes next is to be woken."""
        del self._waiting[who]

    def is_due(self, who: object) -> bool:
        """Whether nobody came before who could run now; one whose own slot is busy holds nobody up."""
        for other, session_id in self._waiting.items():
            if other == who:
                return True
            if self._could_run(session_id):
                return False
        return True
