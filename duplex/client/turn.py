"""One turn of a conversation, as its client saw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Turn:
    """What was said by both sides, and when. All `_s` are seconds of the client's clock; None: it did not happen.

    Attributes:
        user_item_id: the user's message; empty where the answer was asked for by text.
        response_id: empty while nothing answers.
        item_id: of the answer.
        heard: the user's words as the server recognised them.
        said: the answer's words; after an interruption as far as the server had sent them.
        speech_end_s: when the last audible sample of the user's speech was handed to the socket. Silence and quieter
            sound than -40 dBFS at the end do not count.
        server_zero_s: when the sample was sent at which the server saw the speech end: zero of its own figures.
        stopped_s, committed_s, created_s, first_packet_s, done_s: arrival of ``speech_stopped``, ``committed``,
            ``response.created``, the first audio packet and ``response.done``.
        first_audible_s: arrival of the packet that completes the first audible window of the answer.
        ear_s: when a listener hears that window: later, where silence was sent before it.
        interrupted_s: arrival of the ``speech_started`` that cut the answer off.
        hushed_s: when the client itself stopped the answer: what is on its way then is neither played nor stale.
        last_packet_s: arrival of the last audio packet.
        audio_bytes: audio received, stale audio included.
        stale_bytes: audio received after `interrupted_s`.
        played_ms: of an interrupted answer, how much had been heard.
        status, reason: as in ``response.done``.
        server: what GET /v1/turns/{response_id} said, as it came.
    """

    user_item_id: str = ""
    response_id: str = ""
    item_id: str = ""
    heard: str = ""
    said: str = ""
    speech_end_s: float | None = None
    server_zero_s: float | None = None
    stopped_s: float | None = None
    committed_s: float | None = None
    created_s: float | None = None
    first_packet_s: float | None = None
    first_audible_s: float | None = None
    ear_s: float | None = None
    interrupted_s: float | None = None
    hushed_s: float | None = None
    last_packet_s: float | None = None
    done_s: float | None = None
    audio_bytes: int = 0
    stale_bytes: int = 0
    played_ms: int | None = None
    status: str = ""
    reason: str = ""
    server: Json = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """Whether an audible answer arrived."""
        return self.first_audible_s is not None

    @property
    def active(self) -> bool:
        """Whether its answer is being made."""
        return bool(self.response_id) and self.done_s is None

    @property
    def voice_to_voice_ms(self) -> float | None:
        """Last speech sample sent to first audible sample received."""
        return self.since_speech_ms(self.first_audible_s)

    @property
    def voice_to_ear_ms(self) -> float | None:
        """Last speech sample sent to first audible sample heard."""
        return self.since_speech_ms(self.ear_s)

    def since_speech_ms(self, at_s: float | None) -> float | None:
        """A time of this turn relative to the last speech sample sent; None where one of both is missing."""
        if at_s is None or self.speech_end_s is None:
            return None
        return round((at_s - self.speech_end_s) * 1000, 1)
