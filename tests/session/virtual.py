"""An event loop whose clock stands still until a test moves it: hours pass in microseconds."""

from __future__ import annotations

import asyncio

ROUNDS = 10_000
"""More than anything that ends was ever seen to take."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never waits: `settle` runs whatever can run now, `advance` moves the clock from timer to timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def settle(self) -> None:
        """Run until nothing is ready any more. Raises AssertionError where that never comes."""
        for _ in range(ROUNDS):
            self.call_soon(self.stop)
            self.run_forever()
            if not self._ready:  # type: ignore[attr-defined]
                return
        raise AssertionError("the loop never comes to rest")

    def advance(self, seconds: float) -> None:
        """Let time pass; every timer on the way fires at its own time."""
        end = self._now + seconds
        self.settle()
        while (due := self._next()) is not None and due <= end:
            self._now = max(self._now, due)
            self.settle()
        self._now = end
        self.settle()

    def _next(self) -> float | None:
        timers = [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        return min((timer.when() for timer in timers), default=None)
