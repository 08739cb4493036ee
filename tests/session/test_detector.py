"""Turn detection, window by window."""

from __future__ import annotations

from duplex.connector.payload import Completeness, EndOfTurn, Speech
from duplex.session.detector import Ask, End, Onset, Pause, Resume, Signal, TurnDetector, TurnState
from duplex.session.policy import DetectorPolicy
from duplex.session.settings import SemanticVad, ServerVad

W = 512  # 32 ms at 16 kHz
SEMANTIC = DetectorPolicy()
FIXED = DetectorPolicy(silence_ms=320)


class Ear:
    """Feeds a detector window by window."""

    def __init__(self, policy: DetectorPolicy) -> None:
        self.detector = TurnDetector(policy, hz=16_000)
        self.at = 0

    def hear(self, *probabilities: float) -> list[Signal]:
        speech = Speech(start=self.at, window=W, probabilities=probabilities)
        self.at += W * len(probabilities)
        return self.detector.hear(speech)

    def silence_until(self, kind: type[Signal], most: int = 200) -> Signal:
        for _ in range(most):
            for signal in self.hear(0.0):
                if isinstance(signal, kind):
                    return signal
        raise AssertionError(f"no {kind.__name__} in {most} windows of silence")


def test_one_noisy_window_is_not_speech() -> None:
    ear = Ear(SEMANTIC)
    assert ear.hear(0.9, 0.1, 0.9, 0.1) == []
    assert ear.hear(0.9, 0.9) == [Onset(at=4 * W)]


def test_a_fixed_silence_ends_the_turn_where_the_speech_ended() -> None:
    ear = Ear(FIXED)
    ear.hear(*[0.9] * 10)
    assert ear.hear(0.0) == [Pause(start=0, end=10 * W)]
    assert ear.silence_until(End) == End(start=0, end=10 * W)
    assert ear.at == 20 * W


def test_speech_just_below_the_threshold_goes_on_but_does_not_begin() -> None:
    ear = Ear(FIXED)
    assert ear.hear(*[0.4] * 20) == []
    ear.hear(0.9, 0.9)
    assert ear.hear(*[0.4] * 20) == []
    assert ear.detector.state is TurnState.SPEAKING


def silence_ms(sound: float, words: float | None) -> int:
    """How long a silence ends a turn that sounds so complete, and whose words are so."""
    ear = Ear(SEMANTIC)
    ear.hear(*[0.9] * 10)
    for _ in range(1000):
        signals = ear.hear(0.0)
        for signal in [*signals]:
            if isinstance(signal, Pause) and words is not None:
                signals += ear.detector.judge(Completeness(probability=words))
            if isinstance(signal, Ask):
                signals += ear.detector.answer(EndOfTurn(end=signal.end, probability=sound))
        if any(isinstance(signal, End) for signal in signals):
            break
    return (ear.at - 10 * W) * 1000 // 16_000


def test_a_complete_turn_ends_soon_and_an_incomplete_one_is_waited_for() -> None:
    assert [silence_ms(sound, None) for sound in (0.99, 0.96, 0.6, 0.1)] == [320, 448, 576, SEMANTIC.max_silence_ms]


def test_words_that_are_complete_make_it_sooner_and_words_that_are_not_later() -> None:
    assert [silence_ms(0.98, words) for words in (0.95, 0.3, 0.05, 0.0)] == [256, 352, 384, 800]
    assert silence_ms(0.95, 0.3) == 416
    assert silence_ms(0.5, 0.95) == 576, "it does not sound as if it were over"
    assert silence_ms(0.2, 0.95) == 1216, "but nobody is waited for for ever whose words are complete"


def test_two_answers_count_and_one_that_is_open_is_waited_for() -> None:
    ear = Ear(SEMANTIC)
    ear.hear(*[0.9] * 10, 0.0)
    ear.detector.judge(Completeness(probability=1.0))
    first = ear.silence_until(Ask)
    assert isinstance(first, Ask)
    assert ear.detector.answer(EndOfTurn(end=first.end, probability=0.98)) == []
    second = ear.silence_until(Ask)
    assert isinstance(second, Ask)
    assert ear.hear(*[0.0] * 6) == [], "the silence is long enough, and the answer is not there"
    assert ear.detector.answer(EndOfTurn(end=second.end, probability=0.9)) == [], "together they are not sure"
    assert ear.silence_until(End, most=10)


def test_once_two_answers_are_there_no_third_is_waited_for() -> None:
    ear = Ear(SEMANTIC)
    ear.hear(*[0.9] * 10, 0.0)
    ear.detector.judge(Completeness(probability=0.3))
    for _ in range(2):
        ask = ear.silence_until(Ask)
        assert isinstance(ask, Ask)
        ear.detector.answer(EndOfTurn(end=ask.end, probability=0.96))
    third = ear.silence_until(Ask)
    assert isinstance(third, Ask)
    assert ear.detector.asked == third.end
    assert isinstance(ear.silence_until(End), End)
    assert (ear.at - 10 * W) * 1000 // 16_000 == 416


def test_a_judgement_of_words_that_were_gone_on_with_says_nothing() -> None:
    ear = Ear(SEMANTIC)
    ear.hear(*[0.9] * 10, 0.0)
    ear.detector.judge(Completeness(probability=1.0))
    assert ear.hear(0.9) == [Resume(start=0)]
    assert ear.detector.judge(Completeness(probability=1.0)) == []
    for _ in range(2):
        ask = ear.silence_until(Ask)
        assert isinstance(ask, Ask)
        ear.detector.answer(EndOfTurn(end=ask.end, probability=0.98))
    assert ear.hear(*[0.0] * 5) == [], "the words of this pause are not judged"


def test_an_answer_to_an_old_question_is_ignored() -> None:
    ear = Ear(SEMANTIC)
    ear.hear(*[0.9] * 10)
    ask = ear.silence_until(Ask)
    assert isinstance(ask, Ask)
    ear.hear(0.9, 0.9)
    assert ear.detector.answer(EndOfTurn(end=ask.end, probability=1.0)) == []
    again = ear.silence_until(Ask)
    assert isinstance(again, Ask)
    assert again.end > ask.end
    assert again.start == 0, "it is still the same turn"
    assert ear.detector.answer(EndOfTurn(end=ask.end, probability=1.0)) == [], "the question was another one"
    assert not [signal for signal in ear.hear(*[0.0] * 20) if isinstance(signal, End)]


def test_a_turn_without_end_is_ended() -> None:
    ear = Ear(DetectorPolicy(max_turn_ms=320))
    assert ear.hear(*[0.9] * 12)[1:] == [End(start=0, end=10 * W), Onset(at=10 * W)]


def test_the_policy_is_the_clients() -> None:
    fixed = DetectorPolicy.of(ServerVad(threshold=0.7, silence_ms=250), max_turn_s=30)
    assert (fixed.threshold, fixed.silence_ms, fixed.max_turn_ms) == (0.7, 250, 30_000)
    waits = [DetectorPolicy.of(SemanticVad(eagerness=e), max_turn_s=30).max_silence_ms for e in ("low", "auto", "high")]
    assert waits == [8000, 4000, 2000]
