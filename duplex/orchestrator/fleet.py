"""All replicas of a stage, and which session is bound to which. Pure."""

from __future__ import annotations

import math

from duplex.errors import NoReplica, ReplicaLost, StageError
from duplex.orchestrator.replica import Replica, ReplicaState, RestartPolicy

COMING = frozenset({ReplicaState.STARTING, ReplicaState.WAITING})
"""States from which a replica becomes ready by itself."""

START_S = 1.0
"""What somebody is told to wait for a replica that starts, as nothing is known about how long that takes."""


class Fleet:
    """A session is bound to a replica from its first request on, until it is forgotten or the replica dies.

    It keeps one entry for each session that is bound or has lost its replica, so as many as admission lets in.

    Args:
        stage: its name in the graph.
        replicas: how many, 1 or more; all of them start.
        policy: of restarts.
    """

    def __init__(self, *, stage: str, replicas: int, policy: RestartPolicy) -> None:
        self._stage = stage
        self.replicas = tuple(Replica(number=number, policy=policy) for number in range(replicas))
        self._bound: dict[str, Replica] = {}
        self._lost: set[str] = set()

    def __getitem__(self, number: int) -> Replica:
        return self.replicas[number]

    def choose(self, session_id: str) -> Replica | None:
        """The replica of a session; if it has none, the one that has the least to do; None where none is ready."""
        if (bound := self._bound.get(session_id)) is not None:
            return bound
        ready = [replica for replica in self.replicas if replica.state is ReplicaState.READY]
        return min(ready, key=lambda replica: replica.load, default=None)

    def bind(self, session_id: str, replica: Replica) -> bool:
        """Whether the session had another before, which died."""
        self._bound[session_id] = replica
        replica.sessions[session_id] = None
        had = session_id in self._lost
        self._lost.discard(session_id)
        return had

    def unbind(self, replica: Replica) -> list[str]:
        """Loose every session of a replica that has died; returns them, the first that was bound first."""
        sessions = list(replica.sessions)
        replica.sessions.clear()
        for session_id in sessions:
            del self._bound[session_id]
        self._lost.update(sessions)
        return sessions

    def forget(self, session_id: str) -> None:
        """Nothing is kept of a session."""
        if (replica := self._bound.pop(session_id, None)) is not None:
            del replica.sessions[session_id]
        self._lost.discard(session_id)

    @property
    def hopeful(self) -> bool:
        """Whether a replica that is not ready will be so by itself."""
        return any(replica.state in COMING for replica in self.replicas)

    def retry_after_s(self, now: float) -> float | None:
        """When a replica is likely to be ready, in seconds from now; None where an operator has to release one."""
        if any(replica.state is ReplicaState.READY for replica in self.replicas):
            return 0.0
        coming = [replica for replica in self.replicas if replica.state in COMING]
        due = (START_S if one.restart_s is None else max(one.restart_s - now, 0.0) for one in coming)
        return min(due, default=None)

    def refusal(self, message: str, now: float, lost: str = "") -> StageError:
        """What a request fails with: a sentence that says when to try again.

        Args:
            lost: how it lost the replica that it had, where it had one.
        """
        retry_after_s = self.retry_after_s(now)
        if retry_after_s is None:
            when = "an operator has to release one"
        else:
            when = f"try again in {math.ceil(retry_after_s)} s" if retry_after_s else "ask again"
        kind = ReplicaLost if lost else NoReplica
        return kind(f"{lost}{message}; {when}", stage=self._stage, retry_after_s=retry_after_s)

    def restart(self, now: float) -> list[Replica]:
        """Begin anew with the replicas whose time has come; returns them."""
        due = [replica for replica in self.replicas if replica.restart_s is not None and now >= replica.restart_s]
        for replica in due:
            replica.restart()
        return due

    def check_integrity(self) -> None:
        """Raises AssertionError where the books do not agree with each other."""
        assert self._bound == {session: replica for replica in self.replicas for session in replica.sessions}
        assert not self._lost & self._bound.keys()
        for replica in self.replicas:
            assert replica.state is ReplicaState.READY or not (replica.fences or replica.sessions)
            assert (replica.restart_s is not None) == (replica.state is ReplicaState.WAITING)
            assert all(self._bound[fence.session_id] is replica for fence in replica.fences)
