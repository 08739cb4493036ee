"""The words of a pool of replicas: what happens to it, what is to be done about it, and one request of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from duplex.connector.base import Handle
from duplex.engine.base import StageEvent, StageRequest
from duplex.orchestrator.replica import ReplicaView
from duplex.session.fence import Fence

# Events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A new request. Raises StateError where its fence has one already; nothing has changed then."""

    request: StageRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One more chunk of input; `final`: none follows."""

    fence: Fence
    handle: Handle | None
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The request is not wanted any more."""

    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The session is over: its binding goes, and with it any request that it has left."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A replica has said something in this life."""

    number: int
    life: int
    event: StageEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A replica is ready, in this life."""

    number: int
    life: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A replica's life has ended, or could not begin."""

    number: int
    life: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An operator ends a quarantine. Raises StateError where the replica is in none; nothing has changed then."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """Nobody wants any request any more."""


PoolEvent = Submit | Update | Abort | Forget | Said | Started | Died | Release | Shut


# Effects --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTo:
    """Give a replica a request; it has not had it before in this life."""

    number: int
    request: StageRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTo:
    """Pass input on to the replica that has the request."""

    number: int
    fence: Fence
    handle: Handle | None
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortOn:
    """Stop a request on its replica."""

    number: int
    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Say this for the stage: as the replica said it, or, for a failure, as the pool has found."""

    event: StageEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """One reader less for this payload."""

    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Begin a new life of a replica."""

    number: int
    life: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbound:
    """The replica that a session was bound to has died, and what it kept for the session is gone."""

    session_id: str
    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """An unbound session has a replica again, which knows nothing of it; comes before the replica is given anything.

    Whoever owns committed state of the session that the stage needs can restore it there now. A language model needs
    nothing: each prompt carries the whole history, and is read again where no prefix of it is cached.
    """

    session_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A replica has died too often and stays away until an operator releases it."""

    number: int
    reason: str


PoolNotice = Unbound | Rebuilt | Quarantined
PoolEffect = SubmitTo | UpdateTo | AbortOn | Forward | Discard | Restart | PoolNotice


# One request ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Input that is kept; the pool is one reader of its payload."""

    handle: Handle | None
    final: bool


@dataclass(slots=True, kw_only=True)
class Run:
    """A request, from its submission to its end.

    Attributes:
        number: of the replica that has it; None while it is parked.
        bar: why no other replica can have it; empty where one can: `inputs` is then all the input so far.
        inputs: while it is parked, what it will be given; else what is kept of what it was given.
        given: chunks of output that were passed on.
        skip: chunks that are still to come a second time, and are dropped.
        until_s: when it has waited long enough; None while it is not parked.
    """

    request: StageRequest
    bar: str
    number: int | None = None
    inputs: list[Chunk] = field(default_factory=list)
    given: int = 0
    skip: int = 0
    until_s: float | None = None

    @property
    def fence(self) -> Fence:
        return self.request.fence

    def let_go(self) -> tuple[Discard, ...]:
        """Its kept input is not needed any more."""
        handles = [chunk.handle for chunk in self.inputs]
        self.inputs.clear()
        return tuple(discard for handle in handles for discard in discarded(handle))


def discarded(handle: Handle | None) -> tuple[Discard, ...]:
    """What is to be done about input that is not needed."""
    return (Discard(handle=handle),) if handle is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A pool, for an operator.

    Attributes:
        parked: requests that wait for a replica.
        dropped: what came too late, by kind.
    """

    stage: str
    replicas: tuple[ReplicaView, ...]
    parked: int
    dropped: dict[str, int]
