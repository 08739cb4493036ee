"""The words of admission: what a place can be, what happens to it, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from duplex.session.price import Price


class PlaceState(StrEnum):
    """Where one arrival stands."""

    QUEUED = "queued"
    ACTIVE = "active"
    RELEASING = "releasing"
    STUCK = "stuck"
    DISMISSED = "dismissed"
    GONE = "gone"


class PlaceInput(StrEnum):
    """What can happen to it."""

    ADMIT = "admit"
    DISMISS = "dismiss"
    LEAVE = "leave"
    CLEANED = "cleaned"
    FAILED = "failed"
    RETRY = "retry"


PLACE_TABLE: dict[tuple[PlaceState, PlaceInput], PlaceState] = {
    (PlaceState.QUEUED, PlaceInput.ADMIT): PlaceState.ACTIVE,
    (PlaceState.QUEUED, PlaceInput.DISMISS): PlaceState.DISMISSED,
    (PlaceState.QUEUED, PlaceInput.LEAVE): PlaceState.GONE,
    (PlaceState.DISMISSED, PlaceInput.LEAVE): PlaceState.GONE,
    (PlaceState.ACTIVE, PlaceInput.LEAVE): PlaceState.RELEASING,
    (PlaceState.RELEASING, PlaceInput.CLEANED): PlaceState.GONE,
    (PlaceState.RELEASING, PlaceInput.FAILED): PlaceState.STUCK,
    (PlaceState.STUCK, PlaceInput.RETRY): PlaceState.RELEASING,
}
"""Every move that there is. Two rules: a place is free only after CLEANED, and only LEAVE begins the cleaning."""

HELD = frozenset({PlaceState.ACTIVE, PlaceState.RELEASING, PlaceState.STUCK})
"""States in which a place is taken."""

Dismissal = Literal["queue_timeout", "shutdown"]


@dataclass(slots=True, kw_only=True)
class Place:
    """One arrival, as admission keeps it.

    Attributes:
        since_s: when it came into its queue, and from its admission on, when it was admitted.
        position: in the queue, as it was told last; 0 for never.
        own: what it takes by itself, as measured; less than the tariff as a rule.
        used: seconds of each engine, all in all, at `measured_s`.
        attempts: to clean up after it that have failed.
        retry_s: when the next one is due.
    """

    session_id: str
    since_s: float
    state: PlaceState = PlaceState.QUEUED
    position: int = 0
    own: Price = field(default_factory=Price)
    used: Mapping[str, float] = field(default_factory=dict)
    measured_s: float = 0.0
    attempts: int = 0
    retry_s: float = 0.0


# Events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrive:
    """Somebody wants a session. Raises AdmissionRefused where not even the queue has room; nothing has changed then."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Whoever arrived is through: with the session, with opening it, or with waiting. Exactly once per arrival."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Everything that the session held has been given back."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFailed:
    """Something could not be given back; the place stays taken, and it is tried again."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a session has used: seconds of each engine since it was admitted, and bytes by device that it holds now."""

    session_id: str
    compute: Mapping[str, float]
    nbytes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """Nobody is let in any more, and nobody waits any longer."""


AdmissionEvent = Arrive | Leave | Cleaned | CleanFailed | Used | Shut


# Effects --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The session may begin."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellPosition:
    """Tell who waits: `position` 1 is the next; `eta_s` is None where nothing is known about it."""

    session_id: str
    position: int
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss:
    """Send who waits away."""

    session_id: str
    reason: Dismissal


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Answer with `Used`."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Give back what the session held, and answer with `Cleaned` or `CleanFailed`."""

    session_id: str


AdmissionEffect = Admit | TellPosition | Dismiss | Measure | Clean
