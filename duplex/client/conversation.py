"""What a conversation was, put together from what a server tells, in no protocol; pure: time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duplex.audio.pcm import Samples, first_audible
from duplex.client.observer import Observer
from duplex.client.player import RATE_HZ, Microphone
from duplex.client.playout import Dropped, Playout
from duplex.client.turn import Json, Turn

_WINDOW = RATE_HZ // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Hushed:
    """What the listener has stopped.

    Attributes:
        making: ids of the responses that were still being made.
        dropped: what was being played, or None.
    """

    making: tuple[str, ...]
    dropped: Dropped | None


class Conversation:
    """Turns of both sides, and the client's part in interruptions.

    Args:
        microphone: what was sent, and when.
        playout: where answers are played.
        observer: told of the words.
    """

    def __init__(self, *, microphone: Microphone, playout: Playout, observer: Observer | None = None) -> None:
        self.turns: list[Turn] = []
        self.errors: list[str] = []
        self.session: Json = {}
        """The newest that the server said of the session, as it came; empty before."""
        self.detection: Json | None = None
        """The session's turn detection as the server tells it; None for turns that the client ends."""
        self.speaking = False
        """Whether the server hears the user speak."""
        self.speech_started_s: float | None = None
        self.observer = observer or Observer()
        self._microphone = microphone
        self._playout = playout
        self._covered = 0
        self._words: dict[str, str] = {}
        self._tails: dict[str, Samples] = {}

    @property
    def interrupts(self) -> bool:
        """Whether the user's speech cuts an answer off."""
        return self.detection is not None and self.detection.get("interrupt_response") is not False

    def settled(self, now: float) -> bool:
        """Whether all that was said has been answered and the answers have been heard to their end."""
        if self._microphone.queued or self.speaking or self._playout.end_s > now:
            return False
        if any(turn.active for turn in self.turns) or self._covered < self._microphone.audible_end:
            return False
        return bool(self.turns) and bool(self.turns[-1].response_id)

    def committing(self) -> None:
        """The client ends the user's turn itself: note what its speech was."""
        self._open_turn("")

    def hush(self, now: float) -> Hushed:
        """The listener has heard enough: nothing more is played."""
        active = [turn for turn in self.turns if turn.active]
        for turn in active:
            turn.hushed_s = now
        return Hushed(making=tuple(turn.response_id for turn in active), dropped=self._flush(now))

    # What the server tells, each with the time of its arrival in seconds -----------------------

    def configured(self, session: Json, detection: Json | None) -> None:
        """What holds for the session."""
        self.session = session
        self.detection = detection

    def speech_started(self, now: float) -> Dropped | None:
        """The user speaks; returns what is not played because of that."""
        self.speaking = True
        self.speech_started_s = now
        return self._interrupt(now) if self.interrupts else None

    def speech_stopped(self, item_id: str, end_ms: int | None, now: float) -> None:
        """The user's turn is over; `end_ms`: where its speech ended, from the microphone's first sample on."""
        self.speaking = False
        turn = self._turn_of_user(item_id)
        turn.stopped_s = now
        if end_ms is not None:
            turn.server_zero_s = self._microphone.sent_s(end_ms * RATE_HZ // 1000)

    def committed(self, item_id: str, now: float) -> None:
        """What the user said is an item now."""
        self.speaking = False
        own = self._unanswered
        if own is not None and not own.user_item_id:
            own.user_item_id = item_id
            own.heard = self._words.get(item_id, "")
        self._turn_of_user(item_id).committed_s = now

    def hears(self, item_id: str, words: str) -> None:
        """More of the user's words."""
        self._note_words(item_id, self._words.get(item_id, "") + words)

    def heard(self, item_id: str, words: str) -> None:
        """All of the user's words."""
        self._note_words(item_id, words)
        self.observer.heard(words)

    def created(self, response_id: str, now: float) -> None:
        """An answer begins."""
        turn = self._unanswered
        if turn is None:
            turn = Turn()
            self.turns.append(turn)
        turn.response_id = response_id
        turn.created_s = now

    def says(self, response_id: str, words: str) -> None:
        """More words of an answer."""
        self.turn_of(response_id).said += words
        self.observer.said(response_id, words)

    def said(self, response_id: str, words: str) -> None:
        """All words of an answer that were heard."""
        self.turn_of(response_id).said = words

    def done(self, response_id: str, *, status: str, reason: str, error: str, now: float) -> None:
        """An answer is over."""
        turn = self.turn_of(response_id)
        turn.done_s = now
        turn.status = status
        turn.reason = reason
        self._tails.pop(response_id, None)
        self.observer.ended(status, reason)
        if error:
            self.errors.append(error)

    def failed(self, message: str) -> None:
        """The server reports an error."""
        self.errors.append(message)
        self.observer.failed(message)

    # ------------------------------------------------------------------------------------------

    def turn_of(self, response_id: str) -> Turn:
        """The turn that this response answers; a new one where the response is not known."""
        known = next((turn for turn in reversed(self.turns) if turn.response_id == response_id), None)
        if known is None:
            known = Turn(response_id=response_id)
            self.turns.append(known)
        return known

    def _open_turn(self, item_id: str) -> Turn:
        spoken = self._microphone.audible_end
        self._covered = spoken
        turn = Turn(
            user_item_id=item_id,
            heard=self._words.get(item_id, ""),
            speech_end_s=self._microphone.sent_s(spoken) if spoken else None,
        )
        self.turns.append(turn)
        return turn

    def _turn_of_user(self, item_id: str) -> Turn:
        known = next((turn for turn in reversed(self.turns) if turn.user_item_id == item_id), None)
        return known if known is not None else self._open_turn(item_id)

    @property
    def _unanswered(self) -> Turn | None:
        return self.turns[-1] if self.turns and not self.turns[-1].response_id else None

    def _note_words(self, item_id: str, words: str) -> None:
        # Words may come while the user still speaks: then the turn does not exist yet.
        self._words[item_id] = words
        for turn in self.turns:
            if turn.user_item_id == item_id:
                turn.heard = words

    def _interrupt(self, now: float) -> Dropped | None:
        playing = self._playout.end_s > now
        for turn in self.turns:
            if turn.interrupted_s is None and (turn.active or (playing and turn is self.turns[-1])):
                turn.interrupted_s = now
        return self._flush(now)

    def _flush(self, now: float) -> Dropped | None:
        dropped = self._playout.flush(now)
        for turn in self.turns:
            if dropped is not None and turn.item_id == dropped.item_id:
                turn.played_ms = dropped.played_ms
        return dropped

    def audio(self, response_id: str, item_id: str, samples: Samples, now: float) -> None:
        """More sound of an answer, int16 [n] at 24 kHz."""
        turn = self.turn_of(response_id)
        turn.item_id = turn.item_id or item_id
        turn.audio_bytes += samples.nbytes
        turn.first_packet_s = turn.first_packet_s or now
        turn.last_packet_s = now
        if turn.interrupted_s is not None:
            turn.stale_bytes += samples.nbytes
        if turn.interrupted_s is not None or turn.hushed_s is not None:
            return
        heard_s = self._playout.put(turn.item_id, samples, now)
        if turn.first_audible_s is not None:
            return
        # Windows lie on the answer's own axis, so one may span two packets: the later packet completes it.
        tail = self._tails.get(response_id, np.zeros(0, np.int16))
        joined = np.concatenate([tail, samples])
        whole = len(joined) // _WINDOW * _WINDOW
        self._tails[response_id] = joined[whole:]
        onset = first_audible(joined[:whole], RATE_HZ)
        if onset is not None:
            turn.first_audible_s = now
            turn.ear_s = heard_s + max(0, onset - len(tail)) / RATE_HZ
            del self._tails[response_id]
