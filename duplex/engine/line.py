"""Who waits for a slot, in order of arrival; what is only read ahead comes after every answer. Pure.

Whoever has just given a slot back is awake, and those who wait are not: without a line it takes the slot again for its
next request, and a request that waits does so until nobody else wants anything.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain


class Line:
    """Those who wait, each for a conversation. Callers hold the lock that they guard this with.

    Args:
        could_run: whether a request of this conversation would get a slot now.
    """

    def __init__(self, *, could_run: Callable[[str], bool]) -> None:
        self._could_run = could_run
        self._waiting: dict[object, str] = {}
        self._later: dict[object, str] = {}

    def join(self, who: object, session_id: str, *, later: bool = False) -> None:
        """Wait behind all the others; with `later` also behind who comes afterwards without it."""
        (self._later if later else self._waiting)[who] = session_id

    def leave(self, who: object) -> None:
        """Wait no more: whoever comes next is to be woken."""
        (self._waiting if who in self._waiting else self._later).pop(who)

    def is_due(self, who: object) -> bool:
        """Whether nobody came before who could run now; one whose own slot is busy holds nobody up."""
        for other, session_id in chain(self._waiting.items(), self._later.items()):
            if other == who:
                return True
            if self._could_run(session_id):
                return False
        return True
