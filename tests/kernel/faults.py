"""What engines do, in time or late, well or badly; and time itself."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from duplex.errors import StateError, UnknownState
from duplex.session.events import ClearAudio
from duplex.session.holdings import CONVERSATION
from duplex.session.port import Terms
from duplex.state.ref import StateKey
from tests.kernel.client import Client
from tests.kernel.ground import ROUNDS, TICKS, WHO, Ground
from tests.kernel.kernel import GRACE_S
from tests.kernel.record import visible

STAGES = ["endpoint", "hear", "hear", "think", "think", "talk", "code2wav", "code2wav", "listen"]


class Faults(Ground):
    """Rules of engines, faults and time."""

    @rule(
        pieces=st.sampled_from([0, 1, 3, 3, 8, 60, 200]),
        samples=st.sampled_from([1, 800, 3000, 9000, 20_000]),
        sure=st.sampled_from([0.2, 0.96, 0.99]),
        second_thoughts=st.booleans(),
        deaf=st.booleans(),
        slow=st.booleans(),
    )
    def moods_change(
        self, pieces: int, samples: int, sure: float, second_thoughts: bool, deaf: bool, slow: bool
    ) -> None:
        mood = self.kernel.mood
        mood.slow = slow
        # Of more than a few pieces each is long enough that what may be sent ahead has room where it waits to be sent.
        mood.pieces, mood.samples, mood.sure = pieces, samples if pieces < 9 else 450, sure
        mood.second_thoughts, mood.deaf = second_thoughts, deaf and second_thoughts

    @rule(rounds=ROUNDS)
    def engines_work(self, rounds: int) -> None:
        self.kernel.flow(rounds)
        self.go(None)

    @rule(name=st.sampled_from(STAGES), steps=st.sampled_from([1, 2, 4, 500]), which=WHO)
    def an_engine_works(self, name: str, steps: int, which: int) -> None:
        """And what it says is on its way for a while."""
        stage = self.kernel.stages[name]
        for _ in range(steps):
            if busy := stage.busy:
                stage.work(busy[which % len(busy)])
        self.settled = False

    @rule(name=st.sampled_from(STAGES), count=st.sampled_from([1, 2, 4, 500]), ticks=TICKS)
    def something_arrives(self, name: str, count: int, ticks: int | None) -> None:
        self.kernel.stages[name].deliver(count)
        self.go(ticks)

    @rule(name=st.sampled_from(STAGES), which=WHO, everything=st.integers(0, 3), ticks=TICKS)
    def an_engine_crashes(self, name: str, which: int, everything: int, ticks: int | None) -> None:
        stage = self.kernel.stages[name]
        jobs = list(stage.jobs.values())
        for job in jobs if not everything else jobs[which % len(jobs) :][:1] if jobs else []:
            stage.crash(job)
        if which % 2:
            stage.deliver(1000)
        self.go(ticks)

    @rule(ticks=TICKS)
    def engines_speak_too_late(self, ticks: int | None) -> None:
        for stage in self.kernel.stages.values():
            stage.speak_too_late()
        self.go(ticks)

    @precondition(lambda self: self.account.sessions)
    @rule(who=WHO)
    def evict(self, who: int) -> None:
        """A conversation's prefix is taken away: its next turn reads it again, and nothing else comes of it."""
        sessions = self.account.sessions
        session_id = list(sessions)[-1 - who % len(sessions)]
        before = visible(sessions[session_id])
        table = self.kernel.prefixes.table
        evictions = table.store.counters["evictions"]
        gone = self.kernel.prefixes.evict(session_id)
        assert table.store.counters["evictions"] == evictions + gone
        assert visible(sessions[session_id]) == before
        with pytest.raises((StateError, UnknownState)):
            self.kernel.host.states.evict(StateKey(session_id, CONVERSATION))

    @rule(times=st.sampled_from([1, 1, 2, 5]))
    def engines_do_not_let_go(self, times: int) -> None:
        self.kernel.stubborn = times

    # Time, and the end -----------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.1, 0.3, 0.3, 1.0, 1.0, 2.5, 4.9, GRACE_S, 20.0, 70.0]))
    def time(self, seconds: float) -> None:
        self.advance(seconds)

    @precondition(lambda self: self.talking)
    @rule(who=WHO, really=st.integers(0, 5), ticks=TICKS)
    def a_session_meets_a_bug(self, who: int, really: int, ticks: int | None) -> None:
        """It ends alone."""
        if not really:
            client = self.talking[who % len(self.talking)]
            self.record(client).spoilt = True
            self.says(who, ClearAudio(), ticks)

    @precondition(lambda self: not self.closing and self.clients)
    @rule(really=st.integers(0, 9), late=st.integers(0, 2), killed=st.booleans(), ticks=TICKS)
    def shut_down(self, really: int, late: int, killed: bool, ticks: int | None) -> None:
        """`late`: so many come at that very moment."""
        if not really:
            for _ in range(late):
                client = Client(len(self.clients), Terms(), self.account, self.kernel.hall)
                self.clients.append(client)
                client.connect(self.kernel.host.open(client.terms), self.kernel.loop)
            self.shut(killed=killed)
            self.go(ticks)
