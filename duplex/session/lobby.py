"""Runs the admission: who waits for a session waits here, and who is through is cleaned up after here."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from duplex.errors import AdmissionRefused
from duplex.session.admission import Admission
from duplex.session.notices import Closed
from duplex.session.places import (
    AdmissionEffect,
    AdmissionEvent,
    Admit,
    Arrive,
    Clean,
    Cleaned,
    CleanFailed,
    Dismiss,
    Leave,
    Measure,
    PlaceState,
    Shut,
    TellPosition,
    Used,
)
from duplex.session.visit import Visit

log = logging.getLogger(__name__)

DISMISSALS = {
    "queue_timeout": "No place became free in time; try again later.",
    "shutdown": "The server is shutting down.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a session has used so far: seconds by engine; and what it holds now: bytes by device."""

    compute: Mapping[str, float] = field(default_factory=dict)
    nbytes: Mapping[str, int] = field(default_factory=dict)


class Lobby:
    """One for a server. Every method is called on the event loop, and none waits.

    Its one timer is the loop's own, not a task: retries and time limits outlive the connections that caused them.

    Args:
        admission: decides.
        measure: what a session has used and holds.
        clean: gives back what a session held. Whatever it raises, it is called again later, until it does not raise:
            only then is the place free. It must not mind what is given back already.
        counters: counts admissions, by kind.
        clock: the event loop's.
    """

    def __init__(
        self,
        *,
        admission: Admission,
        measure: Callable[[str], Usage],
        clean: Callable[[str], None],
        counters: Counter[str],
        clock: Callable[[], float],
    ) -> None:
        self.admission = admission
        self._measure = measure
        self._clean = clean
        self._counters = counters
        self._clock = clock
        self._visits: dict[str, Visit] = {}
        self._pending: deque[AdmissionEffect] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def refusal(self) -> AdmissionRefused | None:
        """Why `enter` would be refused now; None where it would not."""
        return self.admission.refusal(self._clock())

    def enter(self, visit: Visit) -> None:
        """Take a place, or a place in the queue; `leave` gives either back. Raises AdmissionRefused."""
        session_id = visit.session_id
        self._visits[session_id] = visit
        try:
            self._happened(Arrive(session_id=session_id))
        except AdmissionRefused:
            del self._visits[session_id]
            self._counters["sessions_refused"] += 1
            raise
        if self.admission.places[session_id].state is PlaceState.QUEUED:
            self._counters["sessions_queued"] += 1

    def leave(self, session_id: str) -> None:
        """Give it back; called exactly once after each `enter`, whatever has happened since."""
        del self._visits[session_id]
        self._happened(Leave(session_id=session_id))

    def close(self) -> None:
        """Send away who waits, and let nobody in any more."""
        self._happened(Shut())

    def _happened(self, event: AdmissionEvent) -> None:
        self._perform(self.admission.receive(event, self._clock()))
        self._arm()

    def _wake(self) -> None:
        self._timer = None
        self._perform(self.admission.wake(self._clock()))
        self._arm()

    def _arm(self) -> None:
        deadline = self.admission.deadline
        if self._timer is not None:
            if self._timer.when() == deadline:
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._wake)

    def _perform(self, effects: list[AdmissionEffect]) -> None:
        # What comes of an effect goes behind those that were decided before it: a position must not follow the
        # admission that has overtaken it.
        self._pending.extend(effects)
        while self._pending:
            self._do(self._pending.popleft())

    def _do(self, effect: AdmissionEffect) -> None:
        match effect:
            case Admit(session_id=session_id):
                self._counters["sessions_opened"] += 1
                self._visits[session_id].admit()
            case TellPosition(session_id=session_id, position=position, eta_s=eta_s):
                self._visits[session_id].place(position, eta_s)
            case Dismiss(session_id=session_id, reason=reason):
                self._counters[f"sessions_dismissed_{reason}"] += 1
                self._visits[session_id].dismiss(Closed(reason=reason, message=DISMISSALS[reason]))
            case Measure(session_id=session_id):
                used = self._measure(session_id)
                self._react(Used(session_id=session_id, compute=used.compute, nbytes=used.nbytes))
            case Clean(session_id=session_id):
                self._react(self._cleaned(session_id))

    def _react(self, event: AdmissionEvent) -> None:
        self._pending.extend(self.admission.receive(event, self._clock()))

    def _cleaned(self, session_id: str) -> Cleaned | CleanFailed:
        try:
            self._clean(session_id)
        except Exception:  # The runner's boundary: the place stays taken and is tried again, and the server lives.
            first = not self.admission.places[session_id].attempts
            log.error(
                "session %s cannot be cleaned up after; its place stays taken until it is", session_id, exc_info=first
            )
            self._counters["release_failures"] += 1
            return CleanFailed(session_id=session_id)
        return Cleaned(session_id=session_id)
