"""What each client will do: drawn from one seed, without a clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Dialect(StrEnum):
    """Which protocol a client speaks."""

    REALTIME = "realtime"
    NATIVE = "native"


class Moment(StrEnum):
    """How far a turn is: a deed is done some time after this is seen, which is while the stage named works."""

    SPEAKING = "speaking"  # listen, and hear
    PAUSING = "pausing"  # endpoint; a provisional answer, if any
    HEARING = "hearing"  # hear decodes for the last time
    THINKING = "thinking"  # think
    TALKING = "talking"  # talk, and code2wav
    LISTENING = "listening"  # code2wav; audio is being sent
    ANSWERED = "answered"  # nothing any more


SPOKEN = tuple(Moment)
WRITTEN = (Moment.THINKING, Moment.TALKING, Moment.LISTENING, Moment.ANSWERED)


class Deed(StrEnum):
    """What a client does in the middle of it."""

    NOTHING = "nothing"
    CANCEL = "cancel"
    INTERRUPT = "interrupt"
    CONFIGURE = "configure"
    FORGET = "forget"  # delete an item, or cut one
    BABBLE = "babble"  # something that cannot be taken
    STALL = "stall"  # read nothing for a while, and speak meanwhile
    RESUME = "resume"  # break off, and go on with the right token
    FORGE = "forge"  # break off; ask with a made-up token, an old one, a number of the future; then as one should
    REPLACE = "replace"  # go on with another connection while the first one is open
    FINISH = "finish"  # FIN, without a close frame
    RESET = "reset"  # RST
    FREEZE = "freeze"  # neither read nor write any more, and leave the socket open
    LEAVE = "leave"  # goodbye, in order


LAST = frozenset({Deed.FINISH, Deed.RESET, Deed.FREEZE, Deed.LEAVE})
"""After these there is no more of the visit."""

_WEIGHTS = {
    Deed.NOTHING: 4,
    Deed.CANCEL: 5,
    Deed.INTERRUPT: 6,
    Deed.CONFIGURE: 2,
    Deed.FORGET: 2,
    Deed.BABBLE: 2,
    Deed.STALL: 3,
    Deed.RESUME: 4,
    Deed.FORGE: 3,
    Deed.REPLACE: 2,
    Deed.FINISH: 2,
    Deed.RESET: 2,
    Deed.FREEZE: 1,
    Deed.LEAVE: 2,
}
_NATIVE_ONLY = frozenset({Deed.RESUME, Deed.FORGE, Deed.REPLACE})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """One turn.

    Attributes:
        spoken: into the microphone; else in writing.
        moment, delay_s: when the deed is done.
        choice: a number for whatever else there is to choose: the clip, the nonsense, the length of a stall.
    """

    spoken: bool
    moment: Moment
    delay_s: float
    deed: Deed
    choice: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitPlan:
    """One stay.

    Attributes:
        patience_s: how long it waits in the queue; None for as long as need be.
        small: whether its receive buffer is small, so that it is slow early.
    """

    dialect: Dialect
    patience_s: float | None
    small: bool
    turns: tuple[TurnPlan, ...]


def visits(seed: int, client: int) -> Iterator[VisitPlan]:
    """What one client will do, without an end; the same for the same numbers."""
    chance = Random(f"{seed}/{client}")
    while True:
        yield _visit(chance)


def _visit(chance: Random) -> VisitPlan:
    dialect = chance.choice(tuple(Dialect))
    deeds = [deed for deed in Deed if dialect is Dialect.NATIVE or deed not in _NATIVE_ONLY]
    turns: list[TurnPlan] = []
    for _ in range(chance.randint(1, 4)):
        turns.append(_turn(chance, deeds))
        if turns[-1].deed in LAST:
            break
    return VisitPlan(
        dialect=dialect,
        patience_s=chance.uniform(0.0, 3.0) if chance.random() < 0.25 else None,
        small=chance.random() < 0.5,
        turns=tuple(turns),
    )


def _turn(chance: Random, deeds: list[Deed]) -> TurnPlan:
    spoken = chance.random() < 0.5
    return TurnPlan(
        spoken=spoken,
        moment=chance.choice(SPOKEN if spoken else WRITTEN),
        # Within what the stage takes, as a rule: most of them are over in a tenth of a second.
        delay_s=min(chance.expovariate(1 / 0.12), 1.0),
        deed=chance.choices(deeds, [_WEIGHTS[deed] for deed in deeds])[0],
        choice=chance.randrange(1 << 16),
    )
