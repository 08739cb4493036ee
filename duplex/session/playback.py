"""The playback ledger: what was generated, what was sent, and what the listener has heard by now.

The listener's clock is reckoned: it runs from the first audio on, and stands still while there is nothing to play, and
while there is no listener. Or it is the listener's own: then it stands where the listener last said that it does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from duplex.connector.base import Handle
from duplex.errors import StateError

TOLERANCE_S = 1e-6
"""Wake-ups are floating-point sums; a chunk that is due in less is due now."""


class PlaybackState(Enum):
    """Where the audio of one answer stands."""

    OPEN = auto()
    """More may be generated."""
    ENDING = auto()
    """All is generated; not all is sent."""
    SENT = auto()
    """All is sent; the listener may still be hearing it."""
    STOPPED = auto()
    """Interrupted: nothing more is sent."""


class PlaybackInput(Enum):
    """What moves the playback."""

    OFFER = auto()
    END = auto()
    DRAINED = auto()
    STOP = auto()


PLAYBACK_TABLE: dict[tuple[PlaybackState, PlaybackInput], PlaybackState] = {
    (PlaybackState.OPEN, PlaybackInput.OFFER): PlaybackState.OPEN,
    (PlaybackState.OPEN, PlaybackInput.END): PlaybackState.ENDING,
    (PlaybackState.OPEN, PlaybackInput.STOP): PlaybackState.STOPPED,
    (PlaybackState.ENDING, PlaybackInput.DRAINED): PlaybackState.SENT,
    (PlaybackState.ENDING, PlaybackInput.STOP): PlaybackState.STOPPED,
    (PlaybackState.SENT, PlaybackInput.STOP): PlaybackState.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """How much of an answer was heard.

    Attributes:
        samples: of its audio.
        text_end: characters of its text; may lie inside a word.
    """

    samples: int
    text_end: int


class Playback:
    """The audio of one answer.

    Args:
        hz: samples per second.
        ahead_s: most audio sent before its time.
        acknowledged: whether the listener says what it has played (`acknowledge`).
    """

    def __init__(self, *, hz: int, ahead_s: float, acknowledged: bool = False) -> None:
        self.state = PlaybackState.OPEN
        self.generated = 0
        self.sent = 0
        self._hz = hz
        self._ahead = round(ahead_s * hz)
        self._waiting: deque[Handle] = deque()
        self._ledger: list[tuple[int, int]] = []  # (samples, characters) at the end of each chunk that was sent
        self._clock_s = 0.0  # when the listener had heard `_clock_samples`
        self._clock_samples = 0
        self._acknowledged = acknowledged
        self._halted = False

    def _move(self, what: PlaybackInput) -> None:
        try:
            self.state = PLAYBACK_TABLE[self.state, what]
        except KeyError:
            raise StateError(f"playback in state {self.state.name} cannot take {what.name}") from None

    def played(self, now: float) -> int:
        """Samples that the listener has heard by `now`."""
        if self._halted or self._acknowledged:
            return self._clock_samples
        return min(self.sent, self._clock_samples + max(0, round((now - self._clock_s) * self._hz)))

    def acknowledge(self, samples: int) -> bool:
        """The listener has played so much; an earlier word of less is out of date. False where that is news.

        Raises ValueError for more than was sent, and changes nothing.
        """
        if samples > self.sent:
            raise ValueError(f"{samples} samples of {self.sent} cannot have been played")
        if samples <= self._clock_samples:
            return False
        self._clock_samples = samples
        return True

    def halt(self, now: float) -> None:
        """The listener is gone: the clock stands still, and nothing is due."""
        self._clock_s, self._clock_samples = now, self.played(now)
        self._halted = True

    def go_on(self, now: float) -> None:
        """There is a listener again."""
        if self._halted:
            self._clock_s = now
            self._halted = False

    def offer(self, handle: Handle) -> None:
        """More audio has been generated."""
        self._move(PlaybackInput.OFFER)
        self.generated += handle.samples
        self._waiting.append(handle)

    def end(self) -> None:
        """Nothing more will be generated."""
        self._move(PlaybackInput.END)
        if not self._waiting:
            self._move(PlaybackInput.DRAINED)

    def due(self, now: float) -> list[Handle]:
        """Take what is to be sent now: as much as keeps at most `ahead_s` between what is sent and what is heard.

        A single chunk longer than that is sent when the listener has nothing left.
        """
        due: list[Handle] = []
        while self._waiting and not self._halted and self._wait_s(now) <= TOLERANCE_S:
            handle = self._waiting.popleft()
            if self.played(now) == self.sent:  # The clock stood still: it runs again from here.
                self._clock_s, self._clock_samples = now, self.sent
            self.sent += handle.samples
            self._ledger.append((self.sent, handle.text_end))
            due.append(handle)
        if self.state is PlaybackState.ENDING and not self._waiting:
            self._move(PlaybackInput.DRAINED)
        return due

    def _wait_s(self, now: float) -> float:
        ahead = self.sent - self.played(now)
        too_much = min(ahead, ahead + self._waiting[0].samples - self._ahead)
        return too_much / self._hz

    def deadline(self, now: float) -> float | None:
        """When `due` should be called next; None while there is nothing to send, or the listener has to move first."""
        if not self._waiting or self._halted:
            return None
        wait_s = max(0.0, self._wait_s(now))
        return None if self._acknowledged and wait_s > TOLERANCE_S else now + wait_s

    def stop(self, now: float) -> Heard:
        """Send nothing more; returns what was heard by now."""
        self._move(PlaybackInput.STOP)
        self._waiting.clear()
        return self.heard(self.played(now))

    def heard(self, samples: int) -> Heard:
        """How much of the text was heard once `samples` have been played; interpolated inside a chunk."""
        before_samples, before_text = 0, 0
        for end_samples, end_text in self._ledger:
            if samples < end_samples:
                share = (samples - before_samples) / (end_samples - before_samples)
                return Heard(samples=samples, text_end=before_text + int(share * (end_text - before_text)))
            before_samples, before_text = end_samples, end_text
        return Heard(samples=before_samples, text_end=before_text)


def cut_to_words(text: str, end: int) -> str:
    """The whole words within the first `end` characters: a word that was cut short was not heard."""
    if end >= len(text):
        return text
    if end > 0 and not text[end].isspace() and not text[end - 1].isspace():
        end = max(text.rfind(" ", 0, end), text.rfind("\n", 0, end), 0)
    return text[: max(end, 0)].rstrip()
