"""The replicas of one stage: who gets which request, and what becomes of the requests of one that dies. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from duplex.connector.base import Handle
from duplex.engine.base import StageFailed, StageFinished, StageOutput, StageRequest
from duplex.errors import ConfigError, StageError, StateError
from duplex.orchestrator.fleet import Fleet
from duplex.orchestrator.pooling import (
    Abort,
    AbortOn,
    Chunk,
    Died,
    Forget,
    Forward,
    PoolEffect,
    PoolEvent,
    PoolView,
    Quarantined,
    Rebuilt,
    Release,
    Restart,
    Run,
    Said,
    Shut,
    Started,
    Submit,
    SubmitTo,
    Unbound,
    Update,
    UpdateTo,
    discarded,
)
from duplex.orchestrator.replica import ReplicaState, RestartPolicy
from duplex.session.fence import Fence


class StagePool:
    """Owns the requests of one stage, each until it has ended: finished, failed or aborted, exactly once.

    A session is bound to the replica that its first request goes to, the one with the least to do, and stays there
    through turns and epochs until `Forget`, or until the replica dies. Then the session is told (`Unbound`), and its
    requests fail with ReplicaLost. Where the stage is pure, a request goes to another replica instead, once, with the
    same input, and what had been passed on already is dropped when it comes again. That needs the input: of a pure
    stage the pool keeps the handles, as one more reader of each payload, up to `most_inputs` of a request. One with
    more fails when its replica dies; so does one that is there for the second time, or had waited for a replica.

    A request that comes while no replica is ready is parked, if one will be ready by itself, for `park_s` at most.

    Args:
        stage: its name in the graph.
        replicas: how many there are, all of them starting.
        policy: of restarts.
        pure: the same input gives the same output in the same chunks, whatever else the replica did before. Each
            handle then comes with two readers (see `OrchestratorRunner`), one of which is the pool.
        most_parked: requests that may wait for a replica; one more fails at once, with NoReplica.
        park_s: longest that one waits.
        most_inputs: chunks of input that are kept of one request. One that waits and has more fails.
        chance: in [0, 1), for the pauses before restarts.

    Attributes:
        dropped: what came too late, by kind.
    """

    def __init__(
        self,
        *,
        stage: str,
        replicas: int,
        policy: RestartPolicy,
        chance: Callable[[], float],
        pure: bool = False,
        most_parked: int = 64,
        park_s: float = 5.0,
        most_inputs: int = 256,
    ) -> None:
        if replicas < 1:
            raise ConfigError(f"stage {stage} has {replicas} replicas: it needs at least one")
        self.stage = stage
        self.pure = pure
        self.dropped: Counter[str] = Counter()
        self.fleet = Fleet(stage=stage, replicas=replicas, policy=policy)
        self._chance = chance
        self._most_parked = most_parked
        self._park_s = park_s
        self._most_inputs = most_inputs
        self._runs: dict[Fence, Run] = {}
        self._parked: dict[Fence, Run] = {}

    def __len__(self) -> int:
        """Requests alive."""
        return len(self._runs)

    def holds(self, number: int, fence: Fence) -> bool:
        """Whether this replica has this request now."""
        return fence in self.fleet[number].fences

    @property
    def deadline(self) -> float | None:
        """When `wake` is to be called at the latest; None for never."""
        due = [replica.restart_s for replica in self.fleet.replicas if replica.restart_s is not None]
        due += [run.until_s for run in self._parked.values() if run.until_s is not None]
        return min(due, default=None)

    def receive(self, event: PoolEvent, now: float) -> list[PoolEffect]:
        """Take an event; returns what is to be done, in this order. Raises StateError as the events say."""
        match event:
            case Submit(request=request):
                return self._submit(request, now)
            case Update():
                return self._update(event, now)
            case Abort(fence=fence):
                return self._abort(fence)
            case Forget(session_id=session_id):
                return self._forget(session_id)
            case Said():
                return self._said(event)
            case Started(number=number, life=life):
                if not self.fleet[number].started(life):
                    return self._drop("start")
                return [effect for run in list(self._parked.values()) for effect in self._place(run, now)]
            case Died():
                return self._died(event, now)
            case Release(number=number):
                self.fleet[number].release()
                return [Restart(number=number, life=self.fleet[number].life)]
            case Shut():
                return [effect for fence in list(self._runs) for effect in self._abort(fence)]

    def wake(self, now: float) -> list[PoolEffect]:
        """Time has passed: start again what is due, and fail what has waited too long."""
        effects: list[PoolEffect] = [
            Restart(number=replica.number, life=replica.life) for replica in self.fleet.restart(now)
        ]
        for run in list(self._parked.values()):
            if run.until_s is not None and now >= run.until_s:
                effects += self._fail(run, self.fleet.refusal(f"no replica was ready within {self._park_s:g} s", now))
        return effects

    def snapshot(self, now: float) -> PoolView:
        """What an operator wants to know."""
        return PoolView(
            stage=self.stage,
            replicas=tuple(replica.view(now) for replica in self.fleet.replicas),
            parked=len(self._parked),
            dropped=dict(self.dropped),
        )

    def check_integrity(self) -> None:
        """Raises AssertionError where the books do not agree with each other."""
        self.fleet.check_integrity()
        placed = {fence: replica.number for replica in self.fleet.replicas for fence in replica.fences}
        assert placed == {fence: run.number for fence, run in self._runs.items() if run.number is not None}
        assert self._parked == {fence: run for fence, run in self._runs.items() if run.number is None}
        assert len(self._parked) <= self._most_parked
        assert all(len(run.inputs) <= self._most_inputs for run in self._runs.values())

    # Requests ---------------------------------------------------------------------------------

    def _submit(self, request: StageRequest, now: float) -> list[PoolEffect]:
        if request.fence in self._runs:
            raise StateError(f"{self.stage}: {request.fence} has a request already")
        run = Run(request=request, bar="" if self.pure else "the stage is not pure")
        self._runs[run.fence] = run
        return self._place(run, now)

    def _place(self, run: Run, now: float, lost: str = "") -> list[PoolEffect]:
        """Give a request to a replica, or park it, or fail it; `lost`: how it lost the one that it had."""
        session_id = run.fence.session_id
        replica = self.fleet.choose(session_id)
        if replica is None:
            return self._park(run, now, lost)
        self._parked.pop(run.fence, None)
        run.number, run.until_s = replica.number, None
        replica.fences[run.fence] = None
        effects: list[PoolEffect] = []
        if self.fleet.bind(session_id, replica):
            effects.append(Rebuilt(session_id=session_id, number=replica.number))
        effects.append(SubmitTo(number=replica.number, request=run.request))
        effects += [
            UpdateTo(number=replica.number, fence=run.fence, handle=chunk.handle, final=chunk.final)
            for chunk in run.inputs
        ]
        run.inputs.clear()
        return effects

    def _park(self, run: Run, now: float, lost: str) -> list[PoolEffect]:
        if not self.fleet.hopeful:
            return self._fail(run, self.fleet.refusal("every replica is in quarantine", now, lost))
        if len(self._parked) >= self._most_parked:
            waiting = f"no replica is ready, and {len(self._parked)} requests wait for one already"
            return self._fail(run, self.fleet.refusal(waiting, now, lost))
        # What waits is given away when it has waited: `inputs` cannot be both that and the copy for another try.
        run.bar = run.bar or "it had waited for a replica"
        run.until_s = now + self._park_s
        self._parked[run.fence] = run
        return []

    def _update(self, event: Update, now: float) -> list[PoolEffect]:
        run = self._runs.get(event.fence)
        spare = discarded(event.handle) if self.pure else ()  # the pool's own part of it
        if run is None:
            self.dropped["input"] += 1
            return [*discarded(event.handle), *spare]
        kept = Chunk(handle=event.handle, final=event.final)
        full = len(run.inputs) >= self._most_inputs
        if run.number is None:
            if full:
                waiting = f"no replica is ready, and {self._most_inputs} chunks of input wait for one already"
                return [*self._fail(run, self.fleet.refusal(waiting, now)), *discarded(event.handle), *spare]
            run.inputs.append(kept)
            return [*spare]
        passed = UpdateTo(number=run.number, fence=run.fence, handle=event.handle, final=event.final)
        if run.bar:
            return [passed, *spare]
        if full:
            run.bar = f"its input is more than the {self._most_inputs} chunks that are kept"
            return [passed, *run.let_go(), *spare]
        run.inputs.append(kept)
        return [passed]

    def _said(self, event: Said) -> list[PoolEffect]:
        said = event.event
        run = self._runs.get(said.fence)
        if run is None or run.number != event.number or self.fleet[event.number].life != event.life:
            return self._drop(type(said).__name__, said.handle if isinstance(said, StageOutput) else None)
        match said:
            case StageOutput(handle=handle) if run.skip:
                run.skip -= 1
                return [*discarded(handle)]
            case StageOutput():
                run.given += 1
                return [Forward(event=said)]
            case StageFinished() if run.skip:
                message = f"gave {run.skip} chunks less when it was tried again: it is declared pure, and is not"
                return self._fail(run, StageError(message, stage=self.stage))
            case StageFinished() | StageFailed():
                return [Forward(event=said), *self._end(run)]

    def _abort(self, fence: Fence) -> list[PoolEffect]:
        run = self._runs.get(fence)
        if run is None:
            return self._drop("abort")
        stop: list[PoolEffect] = [AbortOn(number=run.number, fence=fence)] if run.number is not None else []
        return [*stop, *self._end(run)]

    def _forget(self, session_id: str) -> list[PoolEffect]:
        effects: list[PoolEffect] = []
        for fence in [fence for fence in self._runs if fence.session_id == session_id]:
            effects += self._abort(fence)
        self.fleet.forget(session_id)
        return effects

    # Replicas ---------------------------------------------------------------------------------

    def _died(self, event: Died, now: float) -> list[PoolEffect]:
        replica = self.fleet[event.number]
        if not replica.died(event.life, event.reason, now, self._chance()):
            return self._drop("death")
        effects: list[PoolEffect] = [
            Unbound(session_id=session_id, number=replica.number, reason=event.reason)
            for session_id in self.fleet.unbind(replica)
        ]
        runs = [self._runs[fence] for fence in replica.fences]
        replica.fences.clear()
        for run in runs:
            effects += self._lose(run, f"replica {replica.number} is lost ({event.reason}); ", now)
        if replica.state is ReplicaState.QUARANTINED:
            effects.append(Quarantined(number=replica.number, reason=event.reason))
        if self.fleet.retry_after_s(now) is None:
            for run in list(self._parked.values()):
                effects += self._fail(run, self.fleet.refusal("every replica is in quarantine", now))
        return effects

    def _lose(self, run: Run, lost: str, now: float) -> list[PoolEffect]:
        """The replica of a request has died."""
        run.number = None
        if run.bar:
            return self._fail(run, self.fleet.refusal(f"the request is not tried again: {run.bar}", now, lost))
        run.bar, run.skip = "it was tried twice", run.given
        return self._place(run, now, lost)

    # Ends -------------------------------------------------------------------------------------

    def _fail(self, run: Run, error: StageError) -> list[PoolEffect]:
        failed = StageFailed(fence=run.fence, stage=self.stage, error=error)
        return [Forward(event=failed), *self._end(run)]

    def _end(self, run: Run) -> list[PoolEffect]:
        del self._runs[run.fence]
        self._parked.pop(run.fence, None)
        if run.number is not None:
            del self.fleet[run.number].fences[run.fence]
        return [*run.let_go()]

    def _drop(self, kind: str, handle: Handle | None = None) -> list[PoolEffect]:
        self.dropped[kind] += 1
        return [*discarded(handle)]
