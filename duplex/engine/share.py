"""Whose time an engine spends, where it works for several at once. Pure: time is an argument."""

from __future__ import annotations

from collections import Counter


class SharedTime:
    """Time of something that works for everyone who is busy in it, in equal parts (processor sharing).

    While k are at work, each is charged 1/k of the time; all charges together are the time in which anyone was at
    work, so no second is counted twice. Callers hold the lock that they guard it with.
    """

    def __init__(self) -> None:
        self._busy: Counter[str] = Counter()
        self._spent: dict[str, float] = {}
        self._at = 0.0

    def begin(self, key: str, now: float) -> None:
        """Work for `key` begins."""
        self._charge(now)
        self._spent.setdefault(key, 0.0)
        self._busy[key] += 1

    def end(self, key: str, now: float) -> None:
        """One work for `key` is over."""
        self._charge(now)
        self._busy[key] -= 1
        if not self._busy[key]:
            del self._busy[key]

    def spent(self, key: str, now: float) -> float:
        """Seconds charged to `key` until `now`; 0 for one that is not known."""
        self._charge(now)
        return self._spent.get(key, 0.0)

    def forget(self, key: str) -> None:
        """`key` will not be asked about again; what it still does is charged to nobody."""
        self._spent.pop(key, None)

    def _charge(self, now: float) -> None:
        elapsed, self._at = now - self._at, now
        if not self._busy:
            return
        part = elapsed / self._busy.total()
        for key, works in self._busy.items():
            if key in self._spent:
                self._spent[key] += part * works
