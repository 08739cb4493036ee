"""The ledgers of what is heard: the one of the answer under way, and those of the newest that are over, of which it can
still be said."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from duplex.session.answer import Answer
from duplex.session.conversation import Conversation
from duplex.session.playback import Playback, PlaybackState
from duplex.session.settings import SessionLimits

KEPT = 50
"""Answers kept; the oldest go first."""


class Ledgers:
    """Answers whose audio was sent, by the id of their item.

    Args:
        conversation: where an answer's item shows what was heard of it.
        limits: the server's bounds.
        acknowledged: whether the client says what it has played.
    """

    def __init__(self, *, conversation: Conversation, limits: SessionLimits, acknowledged: bool) -> None:
        self.acknowledged = acknowledged
        self._conversation = conversation
        self._limits = limits
        self._halted = False
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def __getitem__(self, item_id: str) -> Answer:
        """Raises KeyError where no ledger of the item is kept."""
        return self._answers[item_id]

    def __iter__(self) -> Iterator[Answer]:
        """Oldest first."""
        return iter(self._answers.values())

    @property
    def newest(self) -> Answer | None:
        """The one whose end may still be being heard."""
        return next(reversed(self._answers.values()), None)

    def begin(self) -> Playback:
        """The ledger of one more answer."""
        playback = Playback(
            hz=self._limits.output_hz, ahead_s=self._limits.audio_ahead_s, acknowledged=self.acknowledged
        )
        if self._halted:
            playback.halt(0.0)
        return playback

    def halt(self, active: Answer | None, now: float) -> None:
        """Nobody listens: no clock runs. `active`: the answer under way."""
        self._halted = True
        for playback in self._audible(active):
            playback.halt(now)

    def go_on(self, active: Answer | None, now: float) -> None:
        """Somebody listens (again)."""
        self._halted = False
        for playback in self._audible(active):
            playback.go_on(now)

    def _audible(self, active: Answer | None) -> list[Playback]:
        """What is being heard, or may be: of the answers that are sent only the newest."""
        return [one.playback for one in (active, self.newest) if one is not None]

    def keep(self, answer: Answer) -> None:
        """One more."""
        self._answers[answer.item_id] = answer
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def cut(self, answer: Answer, samples: int) -> None:
        """The history keeps only what was heard."""
        self._conversation.replace(answer.heard(samples))

    def truncate(self, item_id: str, audio_end_ms: int) -> int | None:
        """Keep only what was heard of an answer; returns None, or its length in ms where that is less.

        Raises KeyError where no ledger of the item is kept.
        """
        answer = self._answers[item_id]
        sent_ms = answer.ms(answer.playback.sent)
        if audio_end_ms > sent_ms:
            return sent_ms
        self.cut(answer, audio_end_ms * self._limits.output_hz // 1000)
        return None

    def stop_tail(self, now: float) -> tuple[Answer, int] | None:
        """Nobody is to hear the end of what was sent: returns that answer and what was heard of it, cut to this; or
        None where all was heard."""
        last = self.newest
        if last is None or last.playback.state is not PlaybackState.SENT:
            return None
        heard = last.playback.played(now)
        last.playback.stop(now)
        if heard == last.playback.sent:
            return None
        self.cut(last, heard)
        return last, heard
