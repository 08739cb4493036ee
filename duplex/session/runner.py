"""Runs one session: a mailbox in, the pure core, its effects performed, an outbox out, a lease over it all.

The only file of the kernel that knows of an event loop's clock. One task per session; whatever fails in here ends
this session and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from duplex.connector.base import Connector
from duplex.orchestrator.runner import OrchestratorRunner
from duplex.session.core import Session
from duplex.session.effects import Abort, Count, Effect, Feed, Note, Play, Release, Retain, Submit, Tell, Update
from duplex.session.events import (
    Attached,
    ClientEvent,
    Close,
    Detached,
    LeaseEvent,
    StageReport,
)
from duplex.session.fence import Fence
from duplex.session.holdings import ConversationState, Holdings
from duplex.session.journal import Journal
from duplex.session.lease import Lease, LeaseState
from duplex.session.mailbox import Mailbox
from duplex.session.notices import Closed, Notice, Refused
from duplex.session.outbox import Outbox
from duplex.session.port import Audio, Entry
from duplex.session.requests import Requests
from duplex.session.settings import SessionLimits
from duplex.session.turnlog import Moment, TurnLog
from duplex.state.store import StateStore

log = logging.getLogger(__name__)

REPORTS = 4096
OUTBOX = 2048

KEPT = 1024
"""Notices and chunks of audio that are kept after they were sent, until the client has acknowledged them."""

KEPT_BYTES = 1 << 20
"""Bytes of these: 20 s of audio."""


class SessionRunner:
    """One open session; `attachment.Attachment` is its face to one connection.

    Args:
        core: the session, not opened yet.
        lease: attached.
        states: where its conversation is entered.
        orchestrator: serves its requests.
        connector: carries its payloads.
        turns: where the moments of its turns are written.
        counters: counts what was dropped, by kind.
        mailbox_events: most client events that may wait.
        clock: the event loop's.
    """

    def __init__(
        self,
        *,
        core: Session,
        lease: Lease,
        limits: SessionLimits,
        states: StateStore[ConversationState],
        orchestrator: OrchestratorRunner,
        connector: Connector,
        turns: TurnLog,
        counters: Counter[str],
        mailbox_events: int,
        clock: Callable[[], float],
    ) -> None:
        self._core = core
        self._lease = lease
        self._held: LeaseEvent = Attached(generation=lease.generation)  # what the core was told of its lease
        self._turns = turns
        self._counters = counters
        self._clock = clock
        self._mailbox = Mailbox(client_events=mailbox_events, reports=REPORTS)
        kept = KEPT if lease.grace_s > 0 else 0
        self._outbox = Outbox(journal=Journal(waiting=OUTBOX, kept=kept, kept_bytes=KEPT_BYTES))
        self._requests = Requests(
            session_id=core.session_id,
            limits=limits,
            orchestrator=orchestrator,
            connector=connector,
            counters=counters,
            report=self._report,
        )
        self._holdings = Holdings(core=core, store=states)

    @property
    def session_id(self) -> str:
        return self._core.session_id

    @property
    def nbytes(self) -> int:
        """Memory of its conversation, and of its audio: of what it has heard, and of what is kept to be sent again."""
        return self._holdings.nbytes + self._requests.nbytes + self._outbox.journal.kept_bytes

    @property
    def detached(self) -> bool:
        """Whether it waits for a connection that resumes it."""
        return self._lease.state is LeaseState.DETACHED

    # One connection's side; `attachment.Attachment` says who it is ------------------------------

    async def send(self, event: ClientEvent, generation: int) -> bool:
        """Hand a client's event in; waits while the mailbox is full. False where it was not taken."""
        return await self._mailbox.send(event, lambda: self._lease.owns(generation))

    async def next(self, generation: int) -> Entry | None:
        """The next thing to tell; None after `Closed`, or once this connection holds the session no more."""
        return await self._outbox.get(generation)

    def replaced(self, generation: int) -> bool:
        """Whether another connection has come after this one."""
        return self._lease.generation > generation

    def acknowledge(self, sequence: int, generation: int) -> None:
        """Everything up to this number has arrived. Raises ClientError for one from the future."""
        if self._lease.owns(generation):
            self._outbox.journal.acknowledge(sequence)
            self._lease.confirm(generation)

    def detach(self, generation: int) -> None:
        """The connection is lost; nothing where it held the session no more. The session ends where nobody may come."""
        if self._lease.detach(generation, self._clock()):
            if self._lease.grace_s > 0:
                self._counters["sessions_detached"] += 1
            else:
                self.close("disconnected")
            self._mailbox.nudge()

    def attach(self, token: str, *, seen: int, following: str) -> tuple[int, bool]:
        """Another connection takes the session over; returns its generation, and whether it is told the whole state
        because what it missed is not kept any more.

        Raises ClientError: the token or the number is not good; nothing has changed.
        """
        self._lease.check(token)
        journal = self._outbox.journal
        journal.check(seen)
        generation = self._lease.attach(token, following=following)
        whole = not journal.rewind(seen)
        self._counters["sessions_resynced" if whole else "sessions_resumed"] += 1
        if whole:
            journal.restart(self._core.snapshot())
        self._outbox.hand_over(generation)
        self._mailbox.nudge()
        return generation, whole

    # ------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Ask the session to end, ahead of whatever waits in its mailbox."""
        if not self._core.closed:
            self._mailbox.force(Close(reason=reason))

    async def run(self) -> None:
        """Run until the session is closed. Never raises but for cancellation: a fault ends this session alone."""
        try:
            self._perform(self._core.open())
            while not self._core.closed:
                await self._step()
        except asyncio.CancelledError:
            self._end("shutdown")
            raise
        except Exception:  # The runner's boundary: the session ends, the server lives.
            log.exception("session %s failed", self.session_id)
            self._counters["session_failures"] += 1
            self._core.closed = True  # It is in no state to be asked anything; what it held is given back below.
        finally:
            self._lease.close()
            self._give_back()

    async def _step(self) -> None:
        # Audio may arrive faster than real time; it waits for listening, which must still find it in the ring.
        await self._mailbox.wait(self._deadline(), clients=not self._core.behind)
        self._work()

    def _work(self) -> None:
        """Everything that is due now."""
        self._tell_of_lease()
        while not self._core.closed and (event := self._mailbox.take(clients=not self._core.behind)) is not None:
            if (refused := self._holdings.refusal(event)) is not None:
                self._put(Refused(error=refused))
                continue
            self._perform(self._core.receive(event, self._clock()))
            self._settle()
        self._perform(self._core.wake(self._clock()))
        self._settle()

    def _settle(self) -> None:
        if not self._holdings.settle():
            self._counters["state_overflows"] += 1
            self.close("state_full")

    def _deadline(self) -> float | None:
        due = [at for at in (self._core.deadline(self._clock()), self._lease.deadline) if at is not None]
        return min(due, default=None)

    def _tell_of_lease(self) -> None:
        """Tell the core who listens. Only what holds now counts: a connection may have come and gone since."""
        if self._lease.wake(self._clock()):
            self._end("disconnected")
        attached = self._lease.state is LeaseState.ATTACHED
        held: LeaseEvent = Attached(generation=self._lease.generation) if attached else Detached()
        if held != self._held:
            self._held = held
            self._perform(self._core.receive(held, self._clock()))

    def _end(self, reason: str) -> None:
        if not self._core.closed:
            self._perform(self._core.receive(Close(reason=reason), self._clock()))
            self._settle()

    def _give_back(self) -> None:
        """Whatever the session still holds anywhere, given back; safe to call when it holds nothing."""
        for fence in self._requests.live:
            self._abort(fence)
        self._requests.forget()
        self._mailbox.close()
        self._outbox.put(Closed(reason="error", message="The session failed inside the server."))

    # Effects --------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Retain(pcm=pcm):
                self._requests.retain(pcm)
            case Submit():
                self._requests.submit(effect)
            case Feed():
                self._requests.feed(effect)
            case Update():
                self._requests.update(effect)
            case Abort(fence=fence):
                self._abort(fence)
            case Play():
                self._play(effect)
            case Tell(notice=notice):
                self._put(notice)
            case Note(response_id=response_id, name=name, ago_s=ago_s, value_ms=value_ms, fence=fence_or_none):
                moment = Moment(name=name, at_s=self._clock() - ago_s, value_ms=value_ms)
                self._turns.add(response_id, self.session_id, moment, fence_or_none)
            case Count(what=what):
                self._counters[what] += 1
            case Release(reason=reason):
                log.info("session %s closed: %s", self.session_id, reason)

    def _abort(self, fence: Fence) -> None:
        """The core's fence has moved already; now every place that could still let the old turn through."""
        self._counters["aborted_chunks"] += self._outbox.retire(fence)
        self._requests.abort(fence)

    def _play(self, effect: Play) -> None:
        voiced = self._requests.voiced(effect.handle)
        if voiced is None:
            return
        audio = Audio(
            fence=effect.fence,
            response_id=effect.response_id,
            item_id=effect.item_id,
            pcm=voiced.samples,
            start=effect.start,
        )
        self._put(audio)

    def _put(self, told: Notice | Audio) -> None:
        if self._outbox.put(told) or self._core.closed:
            return
        if self.detached:
            # Nobody reads, and nobody is to blame: whoever resumes is told the whole state instead.
            self._outbox.journal.drop()
        else:
            self.close("slow_reader")

    def _report(self, report: StageReport) -> None:
        """A stage has something to say to the session."""
        if not self._mailbox.report(report):
            self._counters["mailbox_overflows"] += 1
            self.close("overloaded")
