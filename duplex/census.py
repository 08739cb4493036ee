"""`GET /v1/sessions`: who is here, what each takes, and how much of everything is left."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Literal

from duplex.session.admission import Admission
from duplex.session.lobby import Usage
from duplex.session.places import HELD, Place, PlaceState
from duplex.session.price import Price
from duplex.state.ref import StateRef

_SHOWN = {PlaceState.STUCK: "releasing", PlaceState.DISMISSED: "leaving"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """One arrival.

    Attributes:
        state: ``queued``, ``active``, ``detached`` (it has lost its connection, and waits for another),
            ``releasing`` (over, and not yet all given back), or ``leaving`` (sent away).
        age_s: since its state's queue or session began.
        position, eta_s: in the queue; else null. `eta_s` is null too where nothing is known.
        price: what it is reckoned to take: the tariff, or what it was measured to take if that is more.
        used_s: seconds of each engine so far.
        used_lately: seconds of each engine per second, over the last windows of measurement.
        nbytes: bytes of the server's own that it holds now, by device.
        holds: its state, wherever that lies.
        release_failures: times that it could not be cleaned up after.
    """

    id: str
    state: str
    age_s: float
    position: int | None
    eta_s: float | None
    price: Price | None
    used_s: dict[str, float]
    used_lately: dict[str, float]
    nbytes: dict[str, int]
    holds: list[StateRef]
    release_failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetEntry:
    """One bound: `taken` of `most`; for compute, `most` is without the headroom."""

    kind: Literal["sessions", "queue", "nbytes", "compute"]
    name: str
    taken: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """All of it.

    Attributes:
        next_price: what one more session is reckoned to take.
        windows: measurements that the price of each engine rests on; without any it is what was declared.
        refusal: what an arrival would be told now instead of being let in or let wait; else null.
    """

    object: str
    data: list[SessionEntry]
    budget: list[BudgetEntry]
    next_price: Price
    windows: dict[str, int]
    refusal: str | None


def census(
    admission: Admission,
    measure: Callable[[str], Usage],
    now: float,
    *,
    detached: Container[str] = (),
    refs: Callable[[str], Iterable[StateRef]] = lambda session_id: (),
) -> Census:
    """Count.

    Args:
        now: on the clock that admission was driven by.
        detached: ids of sessions without connection.
        refs: the state of a session.
    """
    refused = admission.refusal(now)
    return Census(
        object="list",
        data=[
            _session(
                admission,
                place,
                measure,
                now,
                detached=place.session_id in detached,
                holds=list(refs(place.session_id)) if place.state in HELD else [],
            )
            for place in admission.places.values()
        ],
        budget=_budget(admission),
        next_price=admission.tariff.price,
        windows=admission.tariff.windows,
        refusal=str(refused) if refused is not None else None,
    )


def _session(
    admission: Admission,
    place: Place,
    measure: Callable[[str], Usage],
    now: float,
    *,
    detached: bool,
    holds: list[StateRef],
) -> SessionEntry:
    held, queued = place.state in HELD, place.state is PlaceState.QUEUED
    usage = measure(place.session_id) if held else Usage()
    return SessionEntry(
        id=place.session_id,
        state="detached" if detached else _SHOWN.get(place.state, str(place.state)),
        age_s=round(now - place.since_s, 3),
        position=place.position if queued else None,
        eta_s=admission.eta_s(place, now) if queued else None,
        price=admission.tariff.price.at_least(place.own) if held else None,
        used_s={engine: round(seconds, 4) for engine, seconds in usage.compute.items()},
        used_lately={engine: round(rate, 4) for engine, rate in place.own.compute.items()},
        nbytes=dict(usage.nbytes),
        holds=holds,
        release_failures=place.attempts,
    )


def _budget(admission: Admission) -> list[BudgetEntry]:
    budget, taken = admission.budget, admission.taken()
    entries = [
        BudgetEntry(kind="sessions", name="sessions", taken=len(admission), most=budget.sessions),
        BudgetEntry(kind="queue", name="queue", taken=admission.waiting, most=admission.queue_length),
    ]
    for device, most in budget.nbytes.items():
        entries.append(BudgetEntry(kind="nbytes", name=device, taken=taken.nbytes.get(device, 0), most=most))
    for name, lane in budget.lanes.items():
        load = round(lane.load(taken.compute), 4)
        entries.append(BudgetEntry(kind="compute", name=name, taken=load, most=round(budget.to_give(name), 4)))
    return entries
