"""The newest answers whose audio was sent: what of them was heard can still be said."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from duplex.session.answer import Answer
from duplex.session.conversation import Conversation
from duplex.session.playback import PlaybackState

KEPT = 50
"""Answers kept; the oldest go first."""


class Ledgers:
    """Answers by the id of their item.

    Args:
        conversation: where an answer's item shows what was heard of it.
        hz: of the audio.
    """

    def __init__(self, *, conversation: Conversation, hz: int) -> None:
        self._conversation = conversation
        self._hz = hz
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
        self.cut(answer, audio_end_ms * self._hz // 1000)
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
