"""Server-side turn detection: from speech probabilities to where a turn starts, pauses and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from duplex.connector.payload import Completeness, EndOfTurn, Speech
from duplex.errors import StateError
from duplex.session.loudness import Loudness
from duplex.session.policy import DetectorPolicy, Enough

HYSTERESIS = 0.15
"""Speech goes on while the probability stays above threshold - this (as the detector's own reference iterator does)."""


class TurnState(Enum):
    """Where the user's turn stands."""

    QUIET = auto()
    SPEAKING = auto()
    PAUSED = auto()


class TurnInput(Enum):
    """What moves the turn."""

    VOICE = auto()
    SILENCE = auto()
    END = auto()


TURN_TABLE: dict[tuple[TurnState, TurnInput], TurnState] = {
    (TurnState.QUIET, TurnInput.VOICE): TurnState.SPEAKING,
    (TurnState.SPEAKING, TurnInput.SILENCE): TurnState.PAUSED,
    (TurnState.SPEAKING, TurnInput.END): TurnState.QUIET,
    (TurnState.PAUSED, TurnInput.VOICE): TurnState.SPEAKING,
    (TurnState.PAUSED, TurnInput.END): TurnState.QUIET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """Speech has begun at `at` (samples)."""

    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The speech that began at `start` has paused at `end`: it may go on."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The turn that began at `start` goes on after a pause."""

    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Is the turn complete that began at `start`? Asked with the silence up to `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The turn is over; its speech was from `start` to `end`."""

    start: int
    end: int


Signal = Onset | Pause | Resume | Ask | End


class TurnDetector:
    """Follows one session's speech.

    Args:
        policy: see `DetectorPolicy`.
        hz: samples per second of the positions.
    """

    def __init__(self, policy: DetectorPolicy, *, hz: int) -> None:
        self._policy = policy
        self._hz = hz
        self._loudness = Loudness(hz=hz)
        self.reset()

    def reset(self) -> None:
        """Forget the turn that is under way."""
        self.state = TurnState.QUIET
        self._run = 0  # samples of speech that do not count as an onset yet
        self._start = self._speech_end = self._position = 0
        self._forget_answers()

    @property
    def asked(self) -> int | None:
        """Where the silence stood at the question that has no answer yet; None where none is open."""
        return self._asked if self.state is TurnState.PAUSED else None

    def _forget_answers(self) -> None:
        self._asked: int | None = None
        self._next_ask = self._samples(self._policy.ask_ms[0])
        self._answers: list[float] = []
        self._words: float | None = None

    def _samples(self, ms: int) -> int:
        return ms * self._hz // 1000

    def _move(self, what: TurnInput) -> None:
        try:
            self.state = TURN_TABLE[self.state, what]
        except KeyError:
            raise StateError(f"a turn in state {self.state.name} cannot take {what.name}") from None

    def hear(self, speech: Speech) -> list[Signal]:
        """Take the next windows, in order."""
        signals: list[Signal] = []
        frames = len(speech.levels) // max(1, len(speech.probabilities))
        for index, probability in enumerate(speech.probabilities):
            self._position = speech.start + (index + 1) * speech.window
            levels = speech.levels[index * frames : (index + 1) * frames]
            signals += self._window(probability, speech.window, levels)
        return signals

    def _window(self, probability: float, window: int, levels: Sequence[float]) -> list[Signal]:
        policy = self._policy
        if self.state is TurnState.QUIET:
            self._loudness.room(levels, window=window)
            self._run = self._run + window if probability >= policy.threshold else 0
            if self._run < self._samples(policy.onset_ms):
                return []
            self._start, self._speech_end, self._run = self._position - self._run, self._position, 0
            self._forget_answers()
            self._loudness.forget()
            self._loudness.hear(levels, end=self._position, window=window, voice=True)
            self._move(TurnInput.VOICE)
            return [Onset(at=self._start)]
        resumed: list[Signal] = []
        voice = probability >= policy.threshold - HYSTERESIS
        self._loudness.hear(levels, end=self._position, window=window, voice=voice)
        if voice and not self._loudness.quiet:
            self._speech_end = self._position
            if self.state is TurnState.PAUSED:
                self._forget_answers()
                self._move(TurnInput.VOICE)
                resumed.append(Resume(start=self._start))
        if self._position - self._start >= self._samples(policy.max_turn_ms):
            return [*resumed, *self._end()]
        if self.state is TurnState.SPEAKING:
            if self._position - self._speech_end < self._samples(policy.pause_ms):
                return resumed
            self._move(TurnInput.SILENCE)
            return [Pause(start=self._start, end=self._speech_end), *self._paused()]
        return self._paused()

    @property
    def paused_at(self) -> int | None:
        """Where the speech has paused; None where it has not."""
        return self._speech_end if self.state is TurnState.PAUSED else None

    @property
    def _silence(self) -> int:
        return self._position - self._loudness.end_of(self._speech_end)

    def _paused(self) -> list[Signal]:
        policy = self._policy
        if policy.silence_ms is not None:
            return self._end() if self._position - self._speech_end >= self._samples(policy.silence_ms) else []
        if self._silence >= self._samples(policy.max_silence_ms):
            return self._end()
        if self._is_enough and not self._loudness.rising:
            return self._end()
        if self._asked is None and self._silence >= self._next_ask:
            self._asked = self._position
            return [Ask(start=self._start, end=self._position)]
        return []

    @property
    def likely(self) -> bool:
        """Whether the user has paused, and it sounds as if it were the end where that is asked."""
        if self.state is not TurnState.PAUSED or self._policy.silence_ms is not None:
            return self.state is TurnState.PAUSED
        return bool(self._answers) and sum(self._answers) / len(self._answers) >= self._policy.likely

    @property
    def _is_enough(self) -> bool:
        if not self._answers or (self._asked is not None and len(self._answers) < self._policy.kept):
            return False
        sound = sum(self._answers) / len(self._answers)
        return any(
            sound >= one.sound and self._worded(one) and self._silence >= self._samples(one.silence_ms)
            for one in self._policy.enough
        )

    def _worded(self, one: Enough) -> bool:
        if self._words is None or one.words is None:
            return self._words is one.words
        return self._words >= one.words

    def answer(self, verdict: EndOfTurn) -> list[Signal]:
        """Take the answer to the latest `Ask`; one to an older question is ignored: speech went on since."""
        if self.state is not TurnState.PAUSED or verdict.end != self._asked:
            return []
        policy = self._policy
        asked = self._silence - (self._position - self._asked)
        self._asked = None
        self._answers = [*self._answers[1 - policy.kept :], verdict.probability]
        ahead = [at for ms in policy.ask_ms if (at := self._samples(ms)) > asked]
        sure = verdict.probability >= policy.sure
        again = self._silence + self._samples(policy.ask_again_ms)
        self._next_ask = self._samples(policy.max_silence_ms) if sure else min(ahead, default=again)
        return self._paused()

    def judge(self, completeness: Completeness) -> list[Signal]:
        """Take what the words up to this pause are thought to be."""
        if self.state is not TurnState.PAUSED:
            return []
        self._words = completeness.probability
        return self._paused()

    def _end(self) -> list[Signal]:
        ended = End(start=self._start, end=self._speech_end)
        self._move(TurnInput.END)
        self._run = 0
        return [ended]
