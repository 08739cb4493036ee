"""One utterance, followed to the end of its turn on its own clock, which is its samples: a busy machine changes
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from duplex.connector.payload import Completeness, EndOfTurn, Speech
from duplex.session.detector import Ask, End, Onset, Pause, Resume, Signal, TurnDetector
from duplex.session.policy import DetectorPolicy

Judge = Callable[[str], Completeness]
"""Whether these words of the user's are all that will be said."""


class Hearing(Protocol):
    """What there is to be heard in one utterance. Positions are samples, from the first one."""

    def windows(self) -> Iterable[Speech]:
        """Its speech from the start, in order, one window each."""

    def sound(self, start: int, end: int) -> EndOfTurn:
        """Whether the turn that began at `start` sounds complete, with its silence up to `end`."""

    def words(self, start: int, end: int, now: int) -> str:
        """Of the turn that began at `start` and has paused at `end`, where there is audio up to `now`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What became of an utterance.

    Attributes:
        ended: position at which its turn was taken to be over; None where it never was.
        pauses: in which its words were, or could have been, recognised.
    """

    ended: int | None
    pauses: int


def follow(hearing: Hearing, *, policy: DetectorPolicy, hz: int, delay_ms: int, judge: Judge | None) -> Followed:
    """Detect the first turn of an utterance, as a session does.

    Windows are there as soon as they end; each answer, by the sound or by the words, comes `delay_ms` after what it was
    asked for, between two windows where it falls there.

    Args:
        hz: samples per second of all positions.
        judge: of the words; None where they are not recognised before the turn is over.
    """
    follower = _Follower(hearing, policy=policy, hz=hz, delay=delay_ms * hz // 1000, judge=judge)
    for speech in hearing.windows():
        follower.hear(speech)
        if follower.ended is not None:
            break
    return Followed(ended=follower.ended, pauses=follower.pauses)


class _Follower:
    def __init__(self, hearing: Hearing, *, policy: DetectorPolicy, hz: int, delay: int, judge: Judge | None) -> None:
        self.ended: int | None = None
        self.pauses = 0
        self._hearing = hearing
        self._detector = TurnDetector(policy, hz=hz)
        self._delay = delay
        self._judge = judge
        self._due: list[tuple[int, EndOfTurn | Completeness]] = []

    def hear(self, speech: Speech) -> None:
        now = speech.start + speech.window * len(speech.probabilities)
        while self.ended is None and self._due and self._due[0][0] < now:
            at, answer = self._due.pop(0)
            self._act(self._take(answer), at)
        if self.ended is None:
            self._act(self._detector.hear(speech), now)

    def _take(self, answer: EndOfTurn | Completeness) -> list[Signal]:
        match answer:
            case EndOfTurn():
                return self._detector.answer(answer)
            case Completeness():
                return self._detector.judge(answer)

    def _act(self, signals: list[Signal], now: int) -> None:
        for signal in signals:
            match signal:
                case Ask(start=start, end=end):
                    self._due.append((now + self._delay, self._hearing.sound(start, end)))
                case Pause(start=start, end=end):
                    self.pauses += 1
                    self._read(start, end, now)
                case Resume():
                    # The user has gone on: words that are not judged yet are not all that was said.
                    self._due = [due for due in self._due if not isinstance(due[1], Completeness)]
                case End():
                    self.ended = now
                case Onset():
                    pass

    def _read(self, start: int, end: int, now: int) -> None:
        if self._judge is not None and (words := self._hearing.words(start, end, now)):
            self._due.append((now + self._delay, self._judge(words)))
