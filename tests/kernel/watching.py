"""The parts of the kernel as they are, with somebody beside them who writes down what they do."""

from __future__ import annotations

from collections.abc import Callable

from duplex.connector.base import Handle
from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Payload
from duplex.session.admission import Admission
from duplex.session.effects import Effect
from duplex.session.events import (
    CancelResponse,
    CommitAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Event,
    Played,
    RetrieveItem,
    TruncateItem,
)
from duplex.session.fence import Fence
from duplex.session.host import Host
from duplex.session.lease import Lease
from duplex.session.notices import Notice
from duplex.session.places import AdmissionEffect, AdmissionEvent, Admit
from duplex.session.port import Audio, Terms
from duplex.session.runner import SessionRunner
from tests.kernel.account import Account
from tests.kernel.record import Record, visible

REFUSABLE = (
    CancelResponse | CommitAudio | CreateItem | CreateResponse | DeleteItem | Played | RetrieveItem | TruncateItem
)


class WatchedConnector(MemoryConnector):
    """The connector as it is, which must refuse what is made under an aborted fence."""

    def __init__(self, *, budget_bytes: int, account: Account) -> None:
        super().__init__(budget_bytes=budget_bytes)
        self._account = account

    def put(self, fence: Fence, payload: Payload) -> Handle:
        handle = super().put(fence, payload)
        late = self._account.is_dead(fence) and fence.session_id not in self._account.over
        self._account.expect(not late, f"bytes are taken under {fence}, which is over")
        return handle


class WatchedAdmission(Admission):
    """Admission as it is; whom it admits is noted."""

    admitted: tuple[str, ...] = ()

    def receive(self, event: AdmissionEvent, now: float) -> list[AdmissionEffect]:
        return self._noted(super().receive(event, now))

    def wake(self, now: float) -> list[AdmissionEffect]:
        return self._noted(super().wake(now))

    def _noted(self, effects: list[AdmissionEffect]) -> list[AdmissionEffect]:
        self.admitted += tuple(effect.session_id for effect in effects if isinstance(effect, Admit))
        return effects


class WatchedHost(Host):
    """The host as it is; whatever a session does is written down."""

    watch: Watch

    def _runner(self, session_id: str, terms: Terms, lease: Lease) -> SessionRunner:
        made = super()._runner(session_id, terms, lease)
        self.watch(made, terms)
        return made


class Watch:
    """Writes down what sessions do.

    Args:
        account: where.
        clock: the loop's.
    """

    def __init__(self, *, account: Account, clock: Callable[[], float]) -> None:
        self.account = account
        self._clock = clock

    def __call__(self, made: SessionRunner, terms: Terms) -> None:
        record = Record(runner=made, acknowledged=terms.acknowledged)
        self.account.sessions[made.session_id] = record
        receive, do, put = made._core.receive, made._do, made._outbox.put
        give_back = made._give_back
        attach, detach, drop = made.attach, made.detach, made._outbox.journal.drop

        def receives(event: Event, now: float) -> list[Effect]:
            before = visible(record) if isinstance(event, REFUSABLE) else None
            if record.spoilt:
                record.failed = True
                raise ZeroDivisionError("a bug in a session")
            effects = receive(event, now)
            changed = before is not None and visible(record) != before
            self.account.receives(record, event, effects, changed=changed)
            return effects

        def does(effect: Effect) -> None:
            self.account.does(record, effect)
            do(effect)

        def puts(told: Notice | Audio) -> bool:
            if made._outbox._closed:
                return put(told)
            self.account.tells(record, told, self._clock())
            return put(told)

        def attaches(token: str, *, seen: int, following: str) -> tuple[int, bool]:
            generation, whole = attach(token, seen=seen, following=following)
            self.account.expect(generation == record.generation + 1, "a generation does not follow the last one")
            record.generation = generation
            self.account.turns(record, self._clock(), on=True)
            return generation, whole

        def detaches(generation: int) -> None:
            if made._lease.owns(generation):
                self.account.turns(record, self._clock(), on=False)
            detach(generation)

        def gives_back() -> None:
            give_back()
            self.account.over.add(made.session_id)

        def drops() -> None:
            record.restarted = len(record.told)
            drop()

        made._core.receive = receives  # type: ignore[method-assign]
        made._do = does  # type: ignore[method-assign]
        made._give_back = gives_back  # type: ignore[method-assign]
        made._outbox.put = puts  # type: ignore[method-assign]
        made._outbox.journal.drop = drops  # type: ignore[method-assign]
        made.attach = attaches  # type: ignore[method-assign]
        made.detach = detaches  # type: ignore[method-assign]
