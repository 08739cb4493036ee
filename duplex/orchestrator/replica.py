"""One replica of a stage: where it stands, and when it is started again after a death. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from duplex.errors import ConfigError, StateError
from duplex.session.fence import Fence


class ReplicaState(StrEnum):
    """Where one replica stands."""

    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"
    """Not for longer than it takes to decide what becomes of it."""
    WAITING = "waiting"
    """To be started again."""
    QUARANTINED = "quarantined"
    """It has died too often; an operator may release it."""


class ReplicaInput(StrEnum):
    """What can happen to it."""

    STARTED = "started"
    DIE = "die"
    """While it works, or while it starts: a start that fails is a death."""
    WAIT = "wait"
    GIVE_UP = "give_up"
    RESTART = "restart"
    RELEASE = "release"


REPLICA_TABLE: dict[tuple[ReplicaState, ReplicaInput], ReplicaState] = {
    (ReplicaState.STARTING, ReplicaInput.STARTED): ReplicaState.READY,
    (ReplicaState.STARTING, ReplicaInput.DIE): ReplicaState.DEAD,
    (ReplicaState.READY, ReplicaInput.DIE): ReplicaState.DEAD,
    (ReplicaState.DEAD, ReplicaInput.WAIT): ReplicaState.WAITING,
    (ReplicaState.DEAD, ReplicaInput.GIVE_UP): ReplicaState.QUARANTINED,
    (ReplicaState.WAITING, ReplicaInput.RESTART): ReplicaState.STARTING,
    (ReplicaState.QUARANTINED, ReplicaInput.RELEASE): ReplicaState.STARTING,
}
"""Every move that there is. Two rules: only a READY replica is given requests, and only a person ends a quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a replica that has died is started again, and when it is not.

    The pause after a death is `first_s`, and `factor` times as long for each further death within the window, `most_s`
    at most; half of it is chance, so that replicas that died together do not start together.

    Args:
        first_s, factor, most_s: see above.
        deaths: so many within `window_s`, the newest included, and the replica is quarantined.
        window_s: see above.

    Raises:
        ConfigError: a number is out of range.
    """

    first_s: float = 0.1
    factor: float = 2.0
    most_s: float = 30.0
    deaths: int = 5
    window_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.most_s or self.factor < 1 or self.deaths < 1 or self.window_s <= 0:
            raise ConfigError(f"restarts cannot be as in {self}: use positive times, a factor and deaths of 1 or more")

    def pause_s(self, deaths: int, chance: float) -> float:
        """After so many deaths within the window, from 1; `chance` in [0, 1)."""
        return min(self.most_s, self.first_s * self.factor ** (deaths - 1)) * (0.5 + 0.5 * chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica, for an operator.

    Attributes:
        queue: requests that it works on.
        sessions: bound to it.
        deaths, restarts: since the server began.
        next_restart_s: in so many seconds; None where none is due.
        reason: of its last death; empty for none.
    """

    number: int
    state: ReplicaState
    queue: int
    sessions: int
    deaths: int
    restarts: int
    next_restart_s: float | None
    reason: str


class Replica:
    """One replica; it starts out STARTING.

    Args:
        number: in its pool, from 0.
        policy: of restarts.

    Attributes:
        life: grows with each start; what is said of an earlier life is late, and is not believed.
        fences: the requests that it works on, oldest first.
        sessions: bound to it.
        restart_s: when it is due to start again, on the caller's clock; None in any state but WAITING.
    """

    def __init__(self, *, number: int, policy: RestartPolicy) -> None:
        self.number = number
        self.state = ReplicaState.STARTING
        self.life = 0
        self.fences: dict[Fence, None] = {}
        self.sessions: dict[str, None] = {}
        self.restart_s: float | None = None
        self.reason = ""
        self._policy = policy
        self._deaths = self._restarts = 0
        self._recent: deque[float] = deque(maxlen=policy.deaths)

    def _move(self, what: ReplicaInput) -> None:
        """Raises StateError where the table has no such move."""
        if (self.state, what) not in REPLICA_TABLE:
            raise StateError(f"replica {self.number} is {self.state} and cannot take {what}")
        self.state = REPLICA_TABLE[self.state, what]

    @property
    def load(self) -> tuple[int, int, int]:
        """The least of these is given the next session: its requests, its sessions, its number."""
        return (len(self.fences), len(self.sessions), self.number)

    def started(self, life: int) -> bool:
        """It is ready; False, and nothing has changed, where that is said of a life that is over."""
        if life != self.life or self.state is not ReplicaState.STARTING:
            return False
        self._move(ReplicaInput.STARTED)
        return True

    def died(self, life: int, reason: str, now: float, chance: float) -> bool:
        """It has died, or could not start; False, and nothing has changed, where that is known already."""
        if life != self.life or (self.state, ReplicaInput.DIE) not in REPLICA_TABLE:
            return False
        self._move(ReplicaInput.DIE)
        self.reason = reason
        self._deaths += 1
        self._recent.append(now)
        deaths = sum(now - death <= self._policy.window_s for death in self._recent)
        if deaths >= self._policy.deaths:
            self._move(ReplicaInput.GIVE_UP)
        else:
            self._move(ReplicaInput.WAIT)
            self.restart_s = now + self._policy.pause_s(deaths, chance)
        return True

    def restart(self) -> None:
        """The pause is over. Raises StateError where it is not WAITING."""
        self._move(ReplicaInput.RESTART)
        self._begin()

    def release(self) -> None:
        """An operator ends the quarantine, and the deaths are forgiven. Raises StateError where there is none."""
        self._move(ReplicaInput.RELEASE)
        self._recent.clear()
        self._begin()

    def _begin(self) -> None:
        self.restart_s = None
        self.life += 1
        self._restarts += 1

    def view(self, now: float) -> ReplicaView:
        return ReplicaView(
            number=self.number,
            state=self.state,
            queue=len(self.fences),
            sessions=len(self.sessions),
            deaths=self._deaths,
            restarts=self._restarts,
            next_restart_s=max(self.restart_s - now, 0.0) if self.restart_s is not None else None,
            reason=self.reason,
        )
