"""Who may have a session, who waits for one, and when a place is free again."""

from __future__ import annotations

from duplex.errors import AdmissionRefused, StateError
from duplex.session.budget import Budget
from duplex.session.lengths import Lengths
from duplex.session.places import (
    HELD,
    PLACE_TABLE,
    AdmissionEffect,
    AdmissionEvent,
    Admit,
    Arrive,
    Clean,
    Cleaned,
    CleanFailed,
    Dismiss,
    Dismissal,
    Leave,
    Measure,
    Place,
    PlaceInput,
    PlaceState,
    Shut,
    TellPosition,
    Used,
)
from duplex.session.price import Price, total
from duplex.session.tariff import Tariff

RETRY_AFTER_S = 10.0
"""What a refused client is told to wait where nothing is known about when a place will be free."""

LONGEST_RETRY_AFTER_S = 60.0

WINDOW_S = 10.0
"""What sessions use is read so often. One turn of talking and listening takes about as long."""

REFRESH_S = 5.0
"""Who waits is told again so often, though nothing has changed: the estimate does, and a dead connection shows."""

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 30.0


class Admission:
    """First come, first served, while the budget holds; a bounded queue for the rest. Pure: time is an argument.

    Args:
        budget: what all sessions together may take.
        tariff: what one more will take.
        queue_length: most that may wait; 0 for no queue.
        queue_wait_s: who has waited so long is sent away.
    """

    def __init__(
        self, *, budget: Budget, tariff: Tariff | None = None, queue_length: int = 0, queue_wait_s: float = 60.0
    ) -> None:
        self.budget = budget
        self.tariff = tariff or Tariff(declared=Price())
        self.queue_length = queue_length
        self.queue_wait_s = queue_wait_s
        self.lengths = Lengths()
        self.places: dict[str, Place] = {}
        """By session id, in the order of arrival; those that are gone are not in it."""
        self._queue: dict[str, Place] = {}
        self._held: dict[str, Place] = {}
        self._shut = False
        self._measure_s = 0.0
        self._refresh_s = 0.0

    def __len__(self) -> int:
        """Places taken."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """How many are in the queue."""
        return len(self._queue)

    @property
    def deadline(self) -> float | None:
        """When `wake` is to be called at the latest; None for never."""
        due = [place.retry_s for place in self._held.values() if place.state is PlaceState.STUCK]
        if any(place.state is PlaceState.ACTIVE for place in self._held.values()):
            due.append(self._measure_s)
        if self._queue:
            due += (self._refresh_s, next(iter(self._queue.values())).since_s + self.queue_wait_s)
        return min(due, default=None)

    def refusal(self, now: float) -> AdmissionRefused | None:
        """What an arrival would be told now instead of being let in or let wait; None where it would not."""
        if self._shut:
            return AdmissionRefused("The server is shutting down.", retry_after_s=RETRY_AFTER_S)
        short = self._short()
        if (short is None and not self._queue) or len(self._queue) < self.queue_length:
            return None
        eta_s = self._eta_s(len(self._queue) + 1, now)
        retry_after_s = RETRY_AFTER_S if eta_s is None else min(max(eta_s, 1.0), LONGEST_RETRY_AFTER_S)
        if short in (None, "sessions"):
            taken = f"All {len(self._held)} sessions of this server are taken"
        else:
            taken = f"This server has no capacity for one more session ({short} is short)"
        also = f", and {len(self._queue)} wait for one already" if self._queue else ""
        message = f"{taken}{also}; try again in a moment."
        return AdmissionRefused(message, retry_after_s=retry_after_s, limit=self.budget.sessions)

    def receive(self, event: AdmissionEvent, now: float) -> list[AdmissionEffect]:
        """Take an event; returns what is to be done, in this order.

        Raises:
            AdmissionRefused: an `Arrive` that is turned away.
            StateError: an arrival of somebody who is here, or any other event about somebody who is not, or in a state
                that does not allow it.
        """
        match event:
            case Arrive(session_id=session_id):
                return self._arrive(session_id, now)
            case Leave(session_id=session_id):
                return self._leave(session_id, now)
            case Cleaned(session_id=session_id):
                return self._cleaned(session_id, now)
            case CleanFailed(session_id=session_id):
                self._clean_failed(session_id, now)
                return []
            case Used():
                return self._used(event, now)
            case Shut():
                self._shut = True
                return [effect for place in list(self._queue.values()) for effect in self._dismiss(place, "shutdown")]

    def wake(self, now: float) -> list[AdmissionEffect]:
        """Time has passed: send away who has waited too long, measure, tell, and try again what has failed."""
        effects: list[AdmissionEffect] = []
        for place in list(self._queue.values()):
            if now >= place.since_s + self.queue_wait_s:
                effects += self._dismiss(place, "queue_timeout")
        for place in self._held.values():
            if place.state is PlaceState.STUCK and now >= place.retry_s:
                self._move(place, PlaceInput.RETRY)
                effects.append(Clean(session_id=place.session_id))
        if now >= self._measure_s:
            self._measure_s = now + WINDOW_S
            active = [place for place in self._held.values() if place.state is PlaceState.ACTIVE]
            effects += [Measure(session_id=place.session_id) for place in active]
        return effects + self._settle(now)

    def rehearsed(self) -> None:
        """Forget what was learnt: what has run until now was no client's."""
        self.tariff.forget()
        self.lengths.forget()

    def eta_s(self, place: Place, now: float) -> float | None:
        """When somebody who waits may expect to be let in, in seconds from now; None where nothing is known."""
        return self._eta_s(place.position, now)

    def taken(self) -> Price:
        """By all that are held; each is reckoned at the tariff, or at what it was measured to take if that is more."""
        price = self.tariff.price
        return total(price.at_least(place.own) for place in self._held.values())

    def check_integrity(self) -> None:
        """Raises AssertionError where the books do not agree with each other."""
        assert all(place.state is PlaceState.QUEUED for place in self._queue.values())
        assert all(place.state in HELD for place in self._held.values())
        states = [place.state for place in self.places.values()]
        assert states.count(PlaceState.QUEUED) == len(self._queue)
        assert sum(state in HELD for state in states) == len(self._held) <= self.budget.sessions
        assert PlaceState.GONE not in states

    # Arrivals and departures ------------------------------------------------------------------

    def _arrive(self, session_id: str, now: float) -> list[AdmissionEffect]:
        if session_id in self.places:
            raise StateError(f"session {session_id} has arrived already")
        if (refused := self.refusal(now)) is not None:
            raise refused
        place = Place(session_id=session_id, since_s=now)
        self.places[session_id] = self._queue[session_id] = place
        if len(self._queue) == 1:
            self._refresh_s = now + REFRESH_S
        return self._settle(now)

    def _leave(self, session_id: str, now: float) -> list[AdmissionEffect]:
        place = self._known(session_id)
        waited = place.state is PlaceState.QUEUED
        self._move(place, PlaceInput.LEAVE)
        if place.state is PlaceState.RELEASING:
            return [Measure(session_id=session_id), Clean(session_id=session_id)]
        return self._settle(now) if waited else []

    def _cleaned(self, session_id: str, now: float) -> list[AdmissionEffect]:
        place = self._known(session_id)
        self._move(place, PlaceInput.CLEANED)
        self.lengths.ended(now - place.since_s)
        return self._settle(now)

    def _clean_failed(self, session_id: str, now: float) -> None:
        place = self._known(session_id)
        self._move(place, PlaceInput.FAILED)
        place.retry_s = now + min(FIRST_RETRY_S * 2.0 ** min(place.attempts, 16), LONGEST_RETRY_S)
        place.attempts += 1

    def _dismiss(self, place: Place, reason: Dismissal) -> list[AdmissionEffect]:
        self._move(place, PlaceInput.DISMISS)
        return [Dismiss(session_id=place.session_id, reason=reason)]

    def _used(self, event: Used, now: float) -> list[AdmissionEffect]:
        place = self._known(event.session_id)
        window_s = now - place.measured_s
        if window_s < WINDOW_S / 2:  # The rest of a session that has just been measured says little.
            return []
        rates = {
            engine: max(0.0, seconds - place.used.get(engine, 0.0)) / window_s
            for engine, seconds in event.compute.items()
        }
        place.used, place.measured_s = dict(event.compute), now
        smooth = {engine: (place.own.compute.get(engine, rate) + rate) / 2 for engine, rate in rates.items()}
        place.own = Price(nbytes=dict(event.nbytes), compute=smooth)
        self.tariff.learn(compute=rates, nbytes=event.nbytes)
        return self._settle(now)

    # The queue --------------------------------------------------------------------------------

    def _settle(self, now: float) -> list[AdmissionEffect]:
        """Admit from the front as long as the front one fits, then tell who has moved up."""
        effects: list[AdmissionEffect] = []
        while self._queue and not self._shut and self._short() is None:
            place = next(iter(self._queue.values()))
            if not any(held.state is PlaceState.ACTIVE for held in self._held.values()):
                self._measure_s = now + WINDOW_S
            self._move(place, PlaceInput.ADMIT)
            place.since_s = place.measured_s = now
            place.position = 0
            effects.append(Admit(session_id=place.session_id))
        again = now >= self._refresh_s
        if again:
            self._refresh_s = now + REFRESH_S
        for position, place in enumerate(self._queue.values(), start=1):
            if again or place.position != position:
                place.position = position
                eta_s = self._eta_s(position, now)
                effects.append(TellPosition(session_id=place.session_id, position=position, eta_s=eta_s))
        return effects

    def _short(self) -> str | None:
        held = len(self._held)
        if held >= self.budget.sessions:
            return "sessions"
        return self.budget.lacks(self.taken(), self.tariff.price, held=held)

    def _eta_s(self, position: int, now: float) -> float | None:
        return self.lengths.eta_s(position, (now - place.since_s for place in self._held.values()))

    # Books ------------------------------------------------------------------------------------

    def _known(self, session_id: str) -> Place:
        place = self.places.get(session_id)
        if place is None:
            raise StateError(f"session {session_id} has no place to give back")
        return place

    def _move(self, place: Place, what: PlaceInput) -> None:
        state = PLACE_TABLE.get((place.state, what))
        if state is None:
            raise StateError(f"session {place.session_id} is {place.state}: it takes no {what}")
        place.state = state
        for books, here in ((self._queue, state is PlaceState.QUEUED), (self._held, state in HELD)):
            if here:
                books[place.session_id] = place
            else:
                books.pop(place.session_id, None)
        if state is PlaceState.GONE:
            del self.places[place.session_id]
