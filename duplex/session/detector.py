"""Server-side turn detection: from speech probabilities to where a turn starts, pauses and ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from duplex.connector.payload import EndOfTurn, Speech
from duplex.errors import StateError
from duplex.session.settings import SemanticVad, ServerVad, TurnDetection

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorPolicy:
    """The figures that turn detection depends on, in milliseconds.

    Attributes:
        threshold: probability from which a window is speech.
        onset_ms: speech needed before it counts (one noisy window must not interrupt anybody).
        pause_ms: silence from which recognition may already decode.
        silence_ms: silence that ends the turn without asking; None asks instead.
        ask_ms: silence at which to ask first; `ask_again_ms`: more silence before each further question.
        enough: pairs of a probability and a silence: where the answer is at least that, so much silence ends the turn.
            The surest first. A pause inside a sentence often sounds complete, but it is shorter than a listener's
            patience; the figures are the shortest that spare the pauses of the committed clips.
        max_silence_ms: silence that ends the turn whatever the answers are.
        max_turn_ms: length that ends it.
    """

    threshold: float = 0.5
    onset_ms: int = 64
    pause_ms: int = 64
    silence_ms: int | None = None
    ask_ms: int = 64
    ask_again_ms: int = 200
    enough: tuple[tuple[float, int], ...] = ((0.985, 256), (0.95, 352), (0.5, 480))
    max_silence_ms: int = 4000
    max_turn_ms: int = 60_000

    @classmethod
    def of(cls, detection: TurnDetection, *, max_turn_s: float) -> DetectorPolicy:
        """The policy that a client's settings ask for."""
        max_turn_ms = round(1000 * max_turn_s)
        match detection:
            case ServerVad(threshold=threshold, silence_ms=silence_ms):
                return cls(threshold=threshold, silence_ms=silence_ms, max_turn_ms=max_turn_ms)
            case SemanticVad():
                return cls(max_silence_ms=detection.max_silence_ms, max_turn_ms=max_turn_ms)


class TurnDetector:
    """Follows one session's speech.

    Args:
        policy: see `DetectorPolicy`.
        hz: samples per second of the positions.
    """

    def __init__(self, policy: DetectorPolicy, *, hz: int) -> None:
        self._policy = policy
        self._hz = hz
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
        self._next_ask = self._samples(self._policy.ask_ms)
        self._enough: int | None = None

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
        for index, probability in enumerate(speech.probabilities):
            self._position = speech.start + (index + 1) * speech.window
            signals += self._window(probability, speech.window)
        return signals

    def _window(self, probability: float, window: int) -> list[Signal]:
        policy = self._policy
        if self.state is TurnState.QUIET:
            self._run = self._run + window if probability >= policy.threshold else 0
            if self._run < self._samples(policy.onset_ms):
                return []
            self._start, self._speech_end, self._run = self._position - self._run, self._position, 0
            self._forget_answers()
            self._move(TurnInput.VOICE)
            return [Onset(at=self._start)]
        resumed: list[Signal] = []
        if probability >= policy.threshold - HYSTERESIS:
            self._speech_end = self._position
            if self.state is TurnState.PAUSED:
                self._forget_answers()
                self._move(TurnInput.VOICE)
                resumed.append(Resume(start=self._start))
        if self._position - self._start >= self._samples(policy.max_turn_ms):
            return [*resumed, *self._end()]
        if self.state is TurnState.SPEAKING:
            if self._silence < self._samples(policy.pause_ms):
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
        return self._position - self._speech_end

    def _paused(self) -> list[Signal]:
        policy = self._policy
        if policy.silence_ms is not None:
            return self._end() if self._silence >= self._samples(policy.silence_ms) else []
        if self._silence >= self._samples(policy.max_silence_ms):
            return self._end()
        if self._enough is not None and self._silence >= self._enough:
            return self._end()
        if self._asked is None and self._silence >= self._next_ask:
            self._asked = self._position
            return [Ask(start=self._start, end=self._position)]
        return []

    def answer(self, verdict: EndOfTurn) -> list[Signal]:
        """Take the answer to the latest `Ask`; one to an older question is ignored: speech went on since."""
        if self.state is not TurnState.PAUSED or verdict.end != self._asked:
            return []
        policy = self._policy
        self._asked = None
        self._next_ask = self._silence + self._samples(policy.ask_again_ms)
        silences = [self._samples(ms) for least, ms in policy.enough if verdict.probability >= least]
        self._enough = min(silences, default=None)
        return self._paused()

    def _end(self) -> list[Signal]:
        ended = End(start=self._start, end=self._speech_end)
        self._move(TurnInput.END)
        self._run = 0
        return [ended]
