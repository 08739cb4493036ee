"""The one door into a session: the client's events and the stages' reports, each in order, both bounded."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from duplex.session.events import ClientEvent, Event, StageReport


class Mailbox:
    """Events for one session, on one event loop. Reports go before client events: they are what those wait for.

    Policies: a client's event waits for room (so the transport stops reading, and the network presses back); a
    report of a stage must not be lost, so a mailbox overfull with reports says so and its session closes.

    Args:
        client_events: most client events held.
        reports: most reports held.
    """

    def __init__(self, *, client_events: int, reports: int) -> None:
        self._room = asyncio.Semaphore(client_events)
        self._most_reports = reports
        self._events: deque[ClientEvent] = deque()
        self._reports: deque[StageReport] = deque()
        self._last_word: ClientEvent | None = None
        self._wake = asyncio.Event()
        self._closed = False
        self._nudged = False

    def __len__(self) -> int:
        return len(self._events) + len(self._reports) + (self._last_word is not None)

    async def send(self, event: ClientEvent, wanted: Callable[[], bool]) -> bool:
        """Put a client's event in; waits for room. False where it is not `wanted`, now or by then, or after `close`."""
        if self._closed or not wanted():
            return False
        await self._room.acquire()
        if self._closed or not wanted():
            self._room.release()
            return False
        self._events.append(event)
        self._wake.set()
        return True

    def nudge(self) -> None:
        """Let `wait` return: something else than an event has happened."""
        self._nudged = True
        self._wake.set()

    def report(self, report: StageReport) -> bool:
        """Put a report in; False where there is no room: the session cannot be kept whole."""
        if self._closed:
            return True
        if len(self._reports) >= self._most_reports:
            return False
        self._reports.append(report)
        self._wake.set()
        return True

    def force(self, event: ClientEvent) -> None:
        """Put the server's own last word in, before everything else; it needs no room, and the first one stands."""
        if self._last_word is None:
            self._last_word = event
        self._wake.set()

    def take(self, *, clients: bool) -> Event | None:
        """The next event, or None where there is none; without `clients` only reports are given."""
        if self._last_word is not None:
            word, self._last_word = self._last_word, None
            return word
        if self._reports:
            return self._reports.popleft()
        if clients and self._events:
            self._room.release()
            return self._events.popleft()
        return None

    async def wait(self, until: float | None, *, clients: bool) -> None:
        """Return when `take` has something, after a `nudge`, or at `until` on the loop's clock."""
        if not (self._nudged or self._last_word or self._reports or (clients and self._events)):
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._wake.wait()
        self._nudged = False

    def close(self) -> None:
        """Take nothing more, and let go of whoever waits for room."""
        self._closed = True
        while self.take(clients=True) is not None:
            pass
