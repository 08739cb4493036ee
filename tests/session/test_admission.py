"""Places, the queue, prices and budgets: each rule by an example; `test_admission_machine` mixes them."""

from __future__ import annotations

import pytest

from duplex.engine.base import Lane
from duplex.errors import AdmissionRefused, StateError
from duplex.session.admission import FIRST_RETRY_S, REFRESH_S, WINDOW_S, Admission
from duplex.session.budget import Budget
from duplex.session.lengths import Lengths
from duplex.session.places import (
    PLACE_TABLE,
    AdmissionEffect,
    Admit,
    Arrive,
    Clean,
    Cleaned,
    CleanFailed,
    Dismiss,
    Leave,
    Measure,
    PlaceInput,
    PlaceState,
    Shut,
    TellPosition,
    Used,
)
from duplex.session.price import Price, total
from duplex.session.tariff import ENOUGH, Tariff


def arrive(admission: Admission, name: str, now: float = 0.0) -> list[AdmissionEffect]:
    return admission.receive(Arrive(session_id=name), now)


def end(admission: Admission, name: str, now: float = 0.0) -> list[AdmissionEffect]:
    admission.receive(Leave(session_id=name), now)
    return admission.receive(Cleaned(session_id=name), now)


class TestPlaces:
    def test_a_place_is_taken_and_given_back_once(self) -> None:
        admission = Admission(budget=Budget(sessions=2))
        assert arrive(admission, "a") == [Admit(session_id="a")]
        arrive(admission, "b")
        with pytest.raises(AdmissionRefused, match="All 2 sessions") as refused:
            arrive(admission, "c")
        assert refused.value.limit == 2
        with pytest.raises(StateError):
            arrive(admission, "a")
        end(admission, "a")
        with pytest.raises(StateError):
            admission.receive(Leave(session_id="a"), 0)
        arrive(admission, "c")
        assert len(admission) == 2

    def test_what_the_table_has_not_is_refused_and_changes_nothing(self) -> None:
        for state in PlaceState:
            for what in PlaceInput:
                admission = Admission(budget=Budget(sessions=1))
                arrive(admission, "a")
                place = admission.places["a"]
                place.state = state
                if (state, what) not in PLACE_TABLE:
                    with pytest.raises(StateError, match=f"is {state}"):
                        admission._move(place, what)
                    assert place.state is state

    def test_a_place_is_free_only_when_the_cleaning_has_succeeded(self) -> None:
        admission = Admission(budget=Budget(sessions=1), queue_length=1)
        arrive(admission, "a")
        arrive(admission, "b")
        assert admission.receive(Leave(session_id="a"), 1.0) == [Measure(session_id="a"), Clean(session_id="a")]
        now, back_off = 1.0, FIRST_RETRY_S
        for _ in range(4):
            assert admission.receive(CleanFailed(session_id="a"), now) == []
            assert admission.places["a"].state is PlaceState.STUCK
            assert admission.deadline == pytest.approx(now + back_off)
            assert Clean(session_id="a") not in admission.wake(now + 0.9 * back_off)
            now += back_off
            assert Clean(session_id="a") in admission.wake(now)
            assert admission.places["b"].state is PlaceState.QUEUED
            back_off *= 2
        assert admission.receive(Cleaned(session_id="a"), now) == [Admit(session_id="b")]
        assert admission.places["b"].state is PlaceState.ACTIVE

    def test_a_thousand_failures_do_not_end_the_trying(self) -> None:
        admission = Admission(budget=Budget(sessions=1))
        arrive(admission, "a")
        admission.receive(Leave(session_id="a"), 0)
        now = 0.0
        for _ in range(1100):
            admission.receive(CleanFailed(session_id="a"), now)
            assert admission.deadline is not None
            assert 0 < admission.deadline - now <= 30.001
            now = admission.deadline
            assert Clean(session_id="a") in admission.wake(now)


class TestQueue:
    def test_first_come_first_served_and_everyone_knows_their_number(self) -> None:
        admission = Admission(budget=Budget(sessions=1), queue_length=3)
        arrive(admission, "a")
        for number, name in enumerate("bcd", start=1):
            assert arrive(admission, name) == [TellPosition(session_id=name, position=number, eta_s=None)]
        with pytest.raises(AdmissionRefused, match="All 1 sessions of this server are taken, and 3 wait"):
            arrive(admission, "e")
        assert admission.receive(Leave(session_id="c"), 1) == [TellPosition(session_id="d", position=2, eta_s=None)]
        assert end(admission, "a", 10) == [
            Admit(session_id="b"),
            TellPosition(session_id="d", position=1, eta_s=10.0),
        ]

    def test_nobody_overtakes(self) -> None:
        """The front one does not fit; one that came later would not either, but must not even be tried."""
        admission = Admission(budget=Budget(sessions=1), queue_length=2)
        arrive(admission, "a")
        arrive(admission, "b")
        admission.receive(Leave(session_id="a"), 0)
        assert arrive(admission, "c") == [TellPosition(session_id="c", position=2, eta_s=None)]
        assert admission.receive(Cleaned(session_id="a"), 1)[0] == Admit(session_id="b")

    def test_who_waits_too_long_is_sent_away_and_holds_up_nobody(self) -> None:
        admission = Admission(budget=Budget(sessions=1), queue_length=2, queue_wait_s=30)
        arrive(admission, "a")
        arrive(admission, "b", 1)
        arrive(admission, "c", 2)
        assert Dismiss(session_id="b", reason="queue_timeout") not in admission.wake(30.9)
        assert admission.deadline == 31
        effects = admission.wake(31)
        assert effects[0] == Dismiss(session_id="b", reason="queue_timeout")
        assert TellPosition(session_id="c", position=1, eta_s=None) in effects
        assert admission.receive(Leave(session_id="b"), 31) == []
        assert end(admission, "a", 31.5) == [Admit(session_id="c")]

    def test_who_waits_is_told_again_and_again(self) -> None:
        admission = Admission(budget=Budget(sessions=1), queue_length=2)
        arrive(admission, "a")
        arrive(admission, "b", 1)
        assert admission.deadline == 1 + REFRESH_S
        assert admission.wake(1 + REFRESH_S) == [TellPosition(session_id="b", position=1, eta_s=None)]
        assert admission.deadline == WINDOW_S

    def test_shut_sends_away_who_waits_and_lets_nobody_in(self) -> None:
        admission = Admission(budget=Budget(sessions=1), queue_length=2)
        arrive(admission, "a")
        arrive(admission, "b")
        assert admission.receive(Shut(), 1) == [Dismiss(session_id="b", reason="shutdown")]
        with pytest.raises(AdmissionRefused, match="shutting down"):
            arrive(admission, "c")
        assert end(admission, "a", 2) == []
        admission.receive(Leave(session_id="b"), 2)
        assert admission.places == {}
        assert admission.deadline is None

    def test_the_estimate_counts_long_sessions_that_go_on(self) -> None:
        lengths = Lengths()
        assert lengths.eta_s(1, [5.0]) is None, "nothing is known"
        lengths.ended(10)
        assert lengths.eta_s(1, []) is None, "nobody is there to leave"
        assert lengths.eta_s(1, [0.0]) == 10
        assert lengths.eta_s(3, [0.0, 0.0]) == 15
        assert lengths.eta_s(1, [90.0]) == 100

    def test_a_refused_client_is_told_when_to_come_back(self) -> None:
        admission = Admission(budget=Budget(sessions=2), queue_length=1)

        def retry_after_s(now: float) -> float:
            with pytest.raises(AdmissionRefused) as refused:
                arrive(admission, "x", now)
            return refused.value.retry_after_s

        for name in "abc":
            arrive(admission, name)
        assert retry_after_s(0) == 10
        end(admission, "a", 20)
        arrive(admission, "d", 20)
        assert retry_after_s(20) == pytest.approx(2 * (20 + 20) / 2)
        assert retry_after_s(5000) == 60


TALK = Price(nbytes={"host": 100}, compute={"think": 0.3, "hear": 0.1})


def budget(**rest: object) -> Budget:
    lanes = {
        "think": Lane(most=1.0, weights={"think": 1.0}),
        "cores": Lane(most=2.0, weights={"think": 2.0, "hear": 1.0}),
    }
    return Budget(**({"sessions": 100, "lanes": lanes, "headroom": 0.0} | rest))  # type: ignore[arg-type]


class TestBudget:
    @pytest.mark.parametrize(
        ("rest", "fit", "short"),
        [
            ({}, 2, "compute of cores"),
            ({"headroom": 0.5}, 1, "compute of"),
            ({"lanes": {}}, 100, "sessions"),
            ({"lanes": {"think": Lane(most=1.0, weights={"think": 1.0})}}, 3, "compute of think"),
            ({"lanes": {}, "nbytes": {"host": 450}}, 4, "bytes of host"),
            ({"sessions": 1}, 1, "sessions"),
        ],
    )
    def test_the_first_dimension_that_is_spent_decides(self, rest: dict[str, object], fit: int, short: str) -> None:
        admission = Admission(budget=budget(**rest), tariff=Tariff(declared=TALK))
        for number in range(fit):
            arrive(admission, str(number))
        wanted = f"All {fit} sessions" if short == "sessions" else f"\\({short}"
        with pytest.raises(AdmissionRefused, match=wanted):
            arrive(admission, "one more")

    def test_a_session_alone_is_never_too_dear_but_bytes_are_of_stone(self) -> None:
        dear = Price(nbytes={"host": 10}, compute={"think": 7.0})
        assert budget().lacks(Price(), dear, held=0) is None
        assert budget(nbytes={"host": 9}).lacks(Price(), dear, held=0) == "bytes of host"

    @pytest.mark.parametrize(
        "rest",
        [{"sessions": 0}, {"headroom": 1.0}, {"headroom": -0.1}, {"nbytes": {"host": -1}}],
    )
    def test_a_negative_budget_is_refused(self, rest: dict[str, object]) -> None:
        with pytest.raises(StateError):
            budget(**rest)

    def test_totals(self) -> None:
        both = total((TALK, Price(compute={"think": 0.1, "talk": 0.2}, nbytes={"cuda:0": 5})))
        assert both.compute == pytest.approx({"think": 0.4, "hear": 0.1, "talk": 0.2})
        assert both.nbytes == {"host": 100, "cuda:0": 5}
        assert TALK.at_least(Price(compute={"think": 0.1, "talk": 0.2})).compute == {
            "think": 0.3,
            "hear": 0.1,
            "talk": 0.2,
        }


class TestTariff:
    def learn(self, tariff: Tariff, times: int, **rates: float) -> None:
        for _ in range(times):
            tariff.learn(compute=rates, nbytes={})

    def test_it_holds_to_the_declaration_until_it_knows_enough(self) -> None:
        tariff = Tariff(declared=TALK)
        assert tariff.price == TALK
        self.learn(tariff, ENOUGH - 1, think=0.1)
        assert tariff.price.compute["think"] == 0.3
        self.learn(tariff, 1, think=0.1)
        assert tariff.price.compute == {"think": 0.1, "hear": 0.1}

    def test_it_believes_at_once_that_sessions_are_dearer(self) -> None:
        tariff = Tariff(declared=TALK)
        self.learn(tariff, 1, think=0.8, talk=0.2)
        assert tariff.price.compute == {"think": 0.8, "hear": 0.1, "talk": 0.2}

    def test_silence_does_not_make_talking_cheap(self) -> None:
        tariff = Tariff(declared=TALK)
        self.learn(tariff, ENOUGH, think=0.5, hear=0.2)
        self.learn(tariff, 10_000, think=0.0, hear=0.0)
        self.learn(tariff, 10_000, think=5e-6)
        assert tariff.price.compute == {"think": 0.5, "hear": 0.2}

    def test_nine_of_ten_sessions_are_no_dearer(self) -> None:
        tariff = Tariff(declared=TALK)
        for number in range(1, 101):
            self.learn(tariff, 1, think=number / 100)
        assert tariff.price.compute["think"] == pytest.approx(0.9, abs=0.011)

    def test_it_follows_what_changes(self) -> None:
        tariff = Tariff(declared=TALK)
        self.learn(tariff, 300, think=0.9)
        self.learn(tariff, 256, think=0.2)
        assert tariff.price.compute["think"] == 0.2

    def test_more_can_be_let_in_than_can_talk(self) -> None:
        """A session is reckoned at a part of talking, and at all that it takes once it takes more."""
        admission = Admission(budget=budget(), tariff=Tariff(declared=TALK, oversubscribe=10.0))
        for number in range(20):
            arrive(admission, str(number))
        assert admission.taken().compute["think"] == pytest.approx(20 * 0.03)
        for name in "01":
            admission.receive(Used(session_id=name, compute={"think": 5.0}, nbytes={}), WINDOW_S)
        admission.tariff.forget()
        assert admission.taken().compute["think"] == pytest.approx(18 * 0.03 + 2 * 0.5)
        with pytest.raises(AdmissionRefused, match="compute of think"):
            arrive(admission, "one more")
        assert admission.taken().nbytes == {"host": 2000}

    def test_bytes_are_the_most_that_were_seen(self) -> None:
        tariff = Tariff(declared=TALK)
        for held in (50, 700, 60):
            tariff.learn(compute={}, nbytes={"host": held})
        assert tariff.price.nbytes == {"host": 700}


class TestMeasuring:
    def test_rates_are_learnt_from_running_sessions_and_the_queue_moves_on(self) -> None:
        admission = Admission(
            budget=budget(lanes={"think": Lane(most=1.0, weights={"think": 1.0})}),
            tariff=Tariff(declared=TALK, enough=2),
            queue_length=5,
        )
        for name in "abcd":
            arrive(admission, name)
        assert (len(admission), admission.waiting) == (3, 1)
        assert admission.deadline is not None
        measured = [effect for effect in admission.wake(WINDOW_S) if isinstance(effect, Measure)]
        assert [effect.session_id for effect in measured] == ["a", "b", "c"]
        assert admission.receive(Used(session_id="a", compute={"think": 2.0}, nbytes={}), WINDOW_S) == []
        effects = admission.receive(Used(session_id="b", compute={"think": 2.0}, nbytes={"host": 7}), WINDOW_S)
        assert effects == [Admit(session_id="d")]
        assert admission.tariff.price.compute["think"] == pytest.approx(0.2)
        assert admission.places["b"].own.nbytes == {"host": 7}

    def test_a_session_that_is_dearer_than_the_tariff_is_reckoned_at_what_it_takes(self) -> None:
        admission = Admission(budget=budget(), tariff=Tariff(declared=TALK, enough=1))
        arrive(admission, "a")
        for second in range(1, 6):
            now = second * WINDOW_S
            admission.receive(Used(session_id="a", compute={"think": 0.9 * now}, nbytes={}), now)
        for _ in range(300):
            admission.tariff.learn(compute={"think": 0.1}, nbytes={})
        assert admission.tariff.price.compute["think"] == pytest.approx(0.1)
        assert admission.taken().compute["think"] == pytest.approx(0.9)

    def test_the_rest_of_a_window_teaches_nothing(self) -> None:
        admission = Admission(budget=budget(), tariff=Tariff(declared=TALK))
        arrive(admission, "a")
        admission.receive(Used(session_id="a", compute={"think": 1.0}, nbytes={}), 0.4 * WINDOW_S)
        assert admission.tariff.windows == {}
        assert admission.places["a"].own == Price()

    def test_a_rehearsal_is_forgotten(self) -> None:
        admission = Admission(budget=budget(), tariff=Tariff(declared=TALK))
        arrive(admission, "a")
        admission.receive(Used(session_id="a", compute={"think": 9.0}, nbytes={}), WINDOW_S)
        end(admission, "a", WINDOW_S)
        admission.rehearsed()
        assert admission.tariff.price == TALK
        assert admission.lengths.eta_s(1, [1.0]) is None
