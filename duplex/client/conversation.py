"""What a conversation was, put together from a server's events; pure: time is an argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from duplex.audio.pcm import Samples, first_audible
from duplex.client.events import Event, Response
from duplex.client.player import RATE_HZ, Microphone
from duplex.client.playout import Playout
from duplex.client.turn import Turn

Message = dict[str, Any]
"""A client event to send."""

_WINDOW = RATE_HZ // 100


class Conversation:
    """Turns of both sides, and the client's part in interruptions.

    Args:
        microphone: what was sent, and when.
        playout: where answers are played.
    """

    def __init__(self, *, microphone: Microphone, playout: Playout) -> None:
        self.turns: list[Turn] = []
        self.errors: list[str] = []
        self.session: Message = {}
        self.speaking = False
        """Whether the server hears the user speak."""
        self.speech_started_s: float | None = None
        self._microphone = microphone
        self._playout = playout
        self._covered = 0
        self._words: dict[str, str] = {}
        self._tails: dict[str, Samples] = {}

    @property
    def detection(self) -> Message | None:
        """The session's turn detection as the server tells it; None for turns that the client ends."""
        detection = self.session.get("audio", {}).get("input", {}).get("turn_detection")
        return detection if isinstance(detection, dict) else None

    @property
    def interrupts(self) -> bool:
        """Whether the user's speech cuts an answer off."""
        detection = self.detection
        return detection is not None and detection.get("interrupt_response") is not False

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

    def hush(self, now: float) -> list[Message]:
        """The listener has heard enough: stop what is being made and what is being played; returns what to send."""
        messages: list[Message] = []
        for turn in self.turns:
            if turn.active:
                turn.hushed_s = now
                messages.append({"type": "response.cancel", "response_id": turn.response_id})
        return messages + self._flush(now)

    def receive(self, event: Event, now: float) -> list[Message]:
        """Take one event that arrived at `now`, in seconds; returns what the client has to send because of it.

        Raises:
            TalkError: the event's audio cannot be decoded.
        """
        match event.type:
            case "session.created" | "session.updated":
                self.session = event.session or {}
            case "input_audio_buffer.speech_started":
                self.speaking = True
                self.speech_started_s = now
                return self._interrupt(now) if self.interrupts else []
            case "input_audio_buffer.speech_stopped":
                self.speaking = False
                turn = self._turn_of_user(event.item_id)
                turn.stopped_s = now
                if event.audio_end_ms is not None:
                    turn.server_zero_s = self._microphone.sent_s(event.audio_end_ms * RATE_HZ // 1000)
            case "input_audio_buffer.committed":
                self._committed(event.item_id, now)
            case "conversation.item.input_audio_transcription.delta":
                self._heard(event.item_id, self._words.get(event.item_id, "") + event.delta)
            case "conversation.item.input_audio_transcription.completed":
                self._heard(event.item_id, event.transcript or "")
            case "response.created":
                self._created(event.response or Response(), now)
            case "response.output_audio.delta":
                self._audio(event, now)
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                self.turn_of(event.response_id).said += event.delta
            case "response.output_audio_transcript.done" | "response.output_text.done":
                self.turn_of(event.response_id).said = event.transcript or event.text or ""
            case "response.done":
                self._done(event.response or Response(), now)
            case "error":
                self.errors.append(event.error.message if event.error else "an error without a message")
        return []

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

    def _heard(self, item_id: str, words: str) -> None:
        # Words may come while the user still speaks: then the turn does not exist yet.
        self._words[item_id] = words
        for turn in self.turns:
            if turn.user_item_id == item_id:
                turn.heard = words

    def _committed(self, item_id: str, now: float) -> None:
        self.speaking = False
        own = self._unanswered
        if own is not None and not own.user_item_id:
            own.user_item_id = item_id
            own.heard = self._words.get(item_id, "")
        self._turn_of_user(item_id).committed_s = now

    def _created(self, response: Response, now: float) -> None:
        turn = self._unanswered
        if turn is None:
            turn = Turn()
            self.turns.append(turn)
        turn.response_id = response.id
        turn.created_s = now

    def _done(self, response: Response, now: float) -> None:
        turn = self.turn_of(response.id)
        turn.done_s = now
        turn.status = response.status or ""
        if response.status_details is not None:
            turn.reason = response.status_details.reason or ""
            if response.status_details.error is not None:
                self.errors.append(response.status_details.error.message)
        self._tails.pop(response.id, None)

    def _interrupt(self, now: float) -> list[Message]:
        playing = self._playout.end_s > now
        for turn in self.turns:
            if turn.interrupted_s is None and (turn.active or (playing and turn is self.turns[-1])):
                turn.interrupted_s = now
        return self._flush(now)

    def _flush(self, now: float) -> list[Message]:
        dropped = self._playout.flush(now)
        if dropped is None:
            return []
        for turn in self.turns:
            if turn.item_id == dropped.item_id:
                turn.played_ms = dropped.played_ms
        return [
            {
                "type": "conversation.item.truncate",
                "item_id": dropped.item_id,
                "content_index": 0,
                "audio_end_ms": dropped.played_ms,
            }
        ]

    def _audio(self, event: Event, now: float) -> None:
        turn = self.turn_of(event.response_id)
        samples = event.pcm()
        turn.item_id = turn.item_id or event.item_id
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
        tail = self._tails.get(event.response_id, np.zeros(0, np.int16))
        joined = np.concatenate([tail, samples])
        whole = len(joined) // _WINDOW * _WINDOW
        self._tails[event.response_id] = joined[whole:]
        onset = first_audible(joined[:whole], RATE_HZ)
        if onset is not None:
            turn.first_audible_s = now
            turn.ear_s = heard_s + max(0, onset - len(tail)) / RATE_HZ
            del self._tails[event.response_id]
