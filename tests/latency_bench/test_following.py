"""An utterance is followed on its own clock: what is asked, when the answers count, and where its turn ends."""

from __future__ import annotations

from collections.abc import Iterator

from duplex.connector.payload import Completeness, EndOfTurn, Speech
from duplex.session.policy import DetectorPolicy
from latency_bench.micro.following import Followed, Judge, follow

HZ = 16_000
W = 512  # 32 ms
POLICY = DetectorPolicy()
SAID_MS = 10 * 32


class Script:
    """An utterance by its speech probabilities, with an endless silence after it, and one answer to each question."""

    def __init__(self, *probabilities: float, sound: float = 0.98, said: str = "Yes.", windows: int = 200) -> None:
        self._probabilities = (*probabilities, *[0.0] * (windows - len(probabilities)))
        self._sound = sound
        self._said = said
        self.asked: list[tuple[int, int]] = []
        self.read: list[tuple[int, int, int]] = []

    def windows(self) -> Iterator[Speech]:
        for number, probability in enumerate(self._probabilities):
            yield Speech(start=number * W, window=W, probabilities=(probability,))

    def sound(self, start: int, end: int) -> EndOfTurn:
        self.asked.append((start, end))
        return EndOfTurn(end=end, probability=self._sound)

    def words(self, start: int, end: int, now: int) -> str:
        self.read.append((start, end, now))
        return self._said


class Reader:
    """A judge that finds all words equally complete."""

    def __init__(self, probability: float) -> None:
        self.probability = probability
        self.judged: list[str] = []

    def __call__(self, words: str) -> Completeness:
        self.judged.append(words)
        return Completeness(probability=self.probability)


def followed(script: Script, judge: Judge | None = None, *, delay_ms: int = 80) -> Followed:
    return follow(script, policy=POLICY, hz=HZ, delay_ms=delay_ms, judge=judge)


def silence_ms(script: Script, judge: Judge | None = None, *, delay_ms: int = 80) -> float:
    """Of an utterance of `SAID_MS`."""
    ended = followed(script, judge, delay_ms=delay_ms).ended
    assert ended is not None
    return 1000 * ended / HZ - SAID_MS


def test_words_that_are_complete_end_a_turn_sooner_than_its_sound_alone() -> None:
    assert silence_ms(Script(*[0.9] * 10), Reader(0.9)) == 256
    assert silence_ms(Script(*[0.9] * 10)) == 448
    assert silence_ms(Script(*[0.9] * 10), Reader(0.0), delay_ms=0) == 800
    assert silence_ms(Script(*[0.9] * 10), Reader(0.0)) == 800, "a third question is open then, and not waited for"


def test_without_a_judge_no_words_are_recognised() -> None:
    script = Script(*[0.9] * 10)
    assert followed(script).pauses == 1
    assert script.read == []


def test_questions_have_the_silence_so_far_and_words_the_audio_so_far() -> None:
    script = Script(*[0.9] * 10)
    followed(script, Reader(0.9))
    assert script.asked == [(0, 13 * W), (0, 15 * W)], "at 96 ms, and when that is answered, at 176 ms"
    assert script.read == [(0, 10 * W, 11 * W)]


def test_an_answer_counts_when_it_is_there_which_may_be_between_two_windows() -> None:
    sure = 0.99
    assert silence_ms(Script(*[0.9] * 10, sound=sure), delay_ms=0) == 320
    assert silence_ms(Script(*[0.9] * 10, sound=sure), delay_ms=230) == 96 + 230
    assert silence_ms(Script(*[0.9] * 10, sound=sure), delay_ms=1000) == 96 + 1000


def test_late_words_leave_the_turn_to_its_sound() -> None:
    script, reader = Script(*[0.9] * 10), Reader(0.9)
    assert silence_ms(script, reader, delay_ms=500) > 500
    assert reader.judged == ["Yes."]


def test_no_words_are_not_judged() -> None:
    script, reader = Script(*[0.9] * 10, said=""), Reader(0.9)
    assert silence_ms(script, reader) == 448
    assert reader.judged == []


def test_a_judgement_of_words_that_were_gone_on_with_is_not_taken_for_the_next_pause() -> None:
    speech = (*[0.9] * 8, 0.0, 0.9)
    reader = iter((Completeness(probability=1.0), Completeness(probability=0.0)))
    assert silence_ms(Script(*speech), lambda _: next(reader)) == 800
    gone = iter(("Yes.", ""))
    script = Script(*speech)
    script.words = lambda start, end, now: next(gone)  # type: ignore[method-assign]
    assert silence_ms(script, Reader(1.0)) == 448, "nobody has judged the words of the second pause"


def test_a_pause_inside_an_utterance_may_end_the_turn_there() -> None:
    speech = (*[0.9] * 10, *[0.0] * 12, *[0.9] * 10)
    assert followed(Script(*speech), Reader(0.9)) == Followed(ended=18 * W, pauses=1)
    assert followed(Script(*speech), Reader(0.0)) == Followed(ended=32 * W + 800 * HZ // 1000, pauses=2)


def test_what_never_ends_has_no_end() -> None:
    assert followed(Script(*[0.9] * 10, windows=20), Reader(0.0)) == Followed(ended=None, pauses=1)
    assert followed(Script()) == Followed(ended=None, pauses=0)
