"""Every interleaving that Hypothesis can think of over the whole kernel: many clients, and everything that can fail.

`make test` tries a few hundred stories, `make thorough` ten thousand.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from duplex.session.admission import REFRESH_S
from duplex.session.events import Played
from duplex.session.lease import LeaseState
from duplex.session.notices import Closed, ItemDone, Queued, Refused
from tests.kernel.comings import Comings
from tests.kernel.faults import Faults
from tests.kernel.kernel import BOUNDS, CONNECTOR_BYTES, EVENTS, GRACE_S, PLACES, QUEUE, REQUESTS, WAIT_S
from tests.kernel.sayings import Sayings


class KernelMachine(Comings, Sayings, Faults):
    """One server, its clients, and its engines."""

    # What must hold --------------------------------------------------------------------------------

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.account.wrong, self.account.wrong[0]

    @invariant()
    def the_books_agree(self) -> None:
        self.kernel.admission.check_integrity()
        assert len(self.kernel.admission) <= PLACES
        assert self.kernel.admission.waiting <= QUEUE
        failed = sum(record.failed for record in self.account.sessions.values())
        assert self.kernel.host.counters["session_failures"] == failed, "a session has failed that had no bug"

    @invariant()
    def bounds_hold(self) -> None:
        assert self.kernel.connector.nbytes <= CONNECTOR_BYTES
        assert len(self.kernel.orchestrator.core) <= REQUESTS
        for record in self.account.sessions.values():
            mailbox, journal = record.runner._mailbox, record.runner._outbox.journal
            assert len(mailbox._reports) <= BOUNDS["REPORTS"]
            assert len(mailbox._events) <= EVENTS
            assert len(journal) <= BOUNDS["OUTBOX"] + BOUNDS["KEPT"] + 1
            assert journal.kept <= BOUNDS["KEPT"]
            assert journal.kept_bytes <= BOUNDS["KEPT_BYTES"]

    @invariant()
    def what_is_held_is_in_the_books(self) -> None:
        assert self.kernel.host.states.check_integrity() == self.kernel.prefixes.findings() == []
        held = {ref.session_id for ref in self.kernel.host.states.refs()}
        assert held == set(self.account.sessions) - self.kernel.let_go, "a conversation is not counted, or for ever"

    @invariant()
    def nobody_overtakes(self) -> None:
        arrived = [client.session_id for client in self.kernel.hall]
        admitted = self.kernel.admission.admitted
        assert [session_id for session_id in arrived if session_id in admitted] == list(admitted)

    @invariant()
    def everyone_receives_each_thing_once(self) -> None:
        for client in self.clients:
            client.check_received()

    @invariant()
    def history_is_what_was_heard(self) -> None:
        for record in self.account.sessions.values():
            if not record.runner._core.closed:
                self.account.check_history(record)

    @invariant()
    def places_are_neither_lost_nor_given_twice(self) -> None:
        if not self.settled:
            return
        kernel = self.kernel
        living = {
            session_id
            for session_id, record in self.account.sessions.items()
            if session_id not in kernel.released and session_id not in kernel.stuck
        }
        assert not [one for one in living if self.account.sessions[one].runner._core.closed]
        assert not living or not self.closing, "a session lives on in a server that has ended"
        assert len(kernel.admission) == len(living) + len(kernel.stuck)
        waiting = [client for client in kernel.hall if client.waits]
        assert kernel.admission.waiting == len(waiting)
        assert not waiting or len(kernel.admission) == PLACES, "somebody waits for a place that is there"
        now = kernel.loop.time()
        for position, client in enumerate(waiting, start=1):
            last = client.read[-1]
            assert isinstance(last, Queued)
            assert last.position == position
            assert now - client.told_s <= REFRESH_S + 1e-6
            assert now - client.entered_s < WAIT_S
        requests = {fence for stage in kernel.stages.values() for fence in stage.jobs}
        assert requests <= set(kernel.orchestrator.core._requests), "an engine works for nobody"
        for session_id in living:
            record = self.account.sessions[session_id]
            assert record.on == (record.runner._lease.state is LeaseState.ATTACHED)

    @invariant()
    def connections_end_when_they_should(self) -> None:
        """Without a session of their own no sooner than that; all others at once, and they are told why."""
        for client in self.clients:
            for connection in client.connections:
                port = connection.port
                if port is None or client.session_id not in self.account.sessions:
                    continue
                record = self.record(client)
                if connection.done and not client.terms.resumable:
                    assert client.session_id in self.account.over, "it is let go while its session lives"
                if not self.settled or not connection.reads.is_set():
                    continue
                if port.generation < record.generation:
                    assert connection.done, "a former connection is kept"
                    if not connection.gone:
                        assert isinstance(connection.last, Closed)
                        assert connection.last.reason == "replaced" or connection.last is record.told[-1]
                if connection.gone and client.opened and client.terms.resumable:
                    assert connection.done, "it is kept though its session may outlive it"

    @invariant()
    def who_reads_is_not_called_slow(self) -> None:
        for client in self.clients:
            if client.read and isinstance(last := client.read[-1], Closed) and last.reason == "slow_reader":
                assert client.stalled, "it has read all that there was"

    # The end ---------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Everything that is under way comes to its end."""
        kernel = self.kernel
        kernel.stubborn, kernel.mood.slow = min(kernel.stubborn, 3), False
        for client in self.clients:
            for connection in client.connections:
                connection.lag = 0
                connection.reads.set()
        for client in self.lost:
            if client.number % 2:
                self.resume(client, None)
        for _ in range(40):
            kernel.prefixes.let_go()
            kernel.flow(1000)
            self.advance(0.25)
            for client in self.talking:
                if client.terms.acknowledged:
                    for item_id, listener in self.record(client).listeners.items():
                        client.says(Played(item_id=item_id, samples=listener.sent))
            self.go(None)
            talking = [self.record(client) for client in self.talking]
            if not any(record.open for record in talking):
                break
        self.nothing_is_wrong()

    def teardown(self) -> None:
        if sys.exc_info()[0] is not None:
            self.kernel.close()
            return
        try:
            self.finish()
        finally:
            self.kernel.close()

    def finish(self) -> None:
        kernel = self.kernel
        self.go(None)
        self.calm_down()
        for client in self.talking:
            record = self.record(client)
            if record.closed or record.spoilt:
                continue
            assert not client.to_send, "something is never taken"
            if record.runner._core.answering.active_id is None:  # Else it is begun in a pause that lasts.
                assert kernel.connector.held(client.session_id) == 0, "bytes that nobody will ever read"
            assert not record.open, "a response that nothing will ever end"
            assert not client.open, "the client waits for the end of a response"
            assert client.items == [item.item_id for item in record.runner._core.conversation.items]
            client.check_received(everything=True)
            if record.restarted == 0:
                refused = {told.error.event_id for told in client.received if isinstance(told, Refused)}
                texts = [told.item.text for told in client.received if isinstance(told, ItemDone)]
                wanted = [text for text in client.typed if text not in refused]
                assert [text for text in texts if text in client.typed] == wanted, "input was lost"
        if len(self.clients) % 3 or self.closing:
            if not self.closing:
                self.shut(killed=len(self.clients) % 3 == 1)
            self.go(None)
        for client in self.clients:
            for connection in client.connections:
                assert connection.task is not None
                connection.task.cancel()
        self.advance(GRACE_S + 1)
        self.advance(100)
        kernel.loop.call_soon(kernel.host.close)
        self.go(None)
        for client in self.clients:
            for connection in client.connections:
                assert connection.done, "a connection was left"
        for record in self.account.sessions.values():
            assert record.closed, "a session has ended without a word"
        assert kernel.stuck == set()
        assert kernel.released >= set(self.account.sessions)
        kernel.assert_nothing_left()
        self.nothing_is_wrong()


TestKernel = KernelMachine.TestCase
EXAMPLES = max(600, settings.default.max_examples)
TestKernel.settings = settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None)
TestKernel = pytest.mark.timeout(60 + EXAMPLES)(TestKernel)
