"""A conversation as JSON, and its words as they come."""

from __future__ import annotations

from typing import TextIO

from duplex.client.conversation import Conversation
from duplex.client.observer import Observer
from duplex.client.turn import Json, Turn


def turn_report(turn: Turn) -> Json:
    """One turn; times in ms after the last speech sample was sent, null where something did not happen.

    `marks` and `stages` are the server's own, relative to where it saw the speech end; `server_zero_ms` is where
    that lies on this side's axis.
    """
    return {
        "response_id": turn.response_id or None,
        "heard": turn.heard,
        "said": turn.said,
        "voice_to_voice_ms": turn.voice_to_voice_ms,
        "voice_to_ear_ms": turn.voice_to_ear_ms,
        "turn_ended_ms": turn.since_speech_ms(turn.stopped_s if turn.stopped_s is not None else turn.committed_s),
        "response_created_ms": turn.since_speech_ms(turn.created_s),
        "first_packet_ms": turn.since_speech_ms(turn.first_packet_s),
        "server_zero_ms": turn.since_speech_ms(turn.server_zero_s),
        "marks": turn.server.get("marks", []),
        "stages": turn.server.get("stages", []),
        "status": turn.status or None,
        "reason": turn.reason or None,
        "interrupted": turn.interrupted_s is not None,
        "played_ms": turn.played_ms,
        "audio_bytes": turn.audio_bytes,
        "stale_bytes": turn.stale_bytes,
    }


def conversation_report(conversation: Conversation) -> Json:
    """All turns, and beside them the fields of the last one that was answered audibly (of an empty turn if none)."""
    answered = [turn for turn in conversation.turns if turn.answered]
    return {
        **turn_report(answered[-1] if answered else Turn()),
        "turn_detection": conversation.detection,
        "answered_turns": len(answered),
        "stale_bytes_of_all_turns": sum(turn.stale_bytes for turn in conversation.turns),
        "errors": conversation.errors,
        "turns": [turn_report(turn) for turn in conversation.turns],
    }


class Transcript(Observer):
    """Prints both sides' words as they come.

    Args:
        out: where to.
    """

    def __init__(self, *, out: TextIO) -> None:
        self._out = out
        self._open = ""
        self._position: int | None = None

    def heard(self, words: str) -> None:
        """See `Observer`."""
        self._line("you     ", words.strip() or "(nothing)")

    def said(self, response_id: str, words: str) -> None:
        """See `Observer`."""
        if self._open != response_id:
            self.close()
            self._out.write("duplex  ")
            self._open = response_id
        self._out.write(words)
        self._out.flush()

    def ended(self, status: str, reason: str) -> None:
        """See `Observer`."""
        self.close()
        if status not in ("completed", ""):
            self._line("        ", f"({status}: {reason})" if reason else f"({status})")

    def queued(self, position: int, eta_s: float | None) -> None:
        """See `Observer`."""
        if position != self._position:
            self._position = position
            eta = f", about {eta_s:.0f} s to go" if eta_s is not None else ""
            self._line("        ", f"(number {position} in the queue{eta})")

    def resumed(self) -> None:
        """See `Observer`."""
        self._line("        ", "(the connection was lost, and the conversation goes on over another)")

    def failed(self, message: str) -> None:
        """See `Observer`."""
        self._line("error   ", message)

    def close(self) -> None:
        """End a line that is still open."""
        if self._open:
            self._out.write("\n")
            self._open = ""

    def _line(self, who: str, words: str) -> None:
        self.close()
        self._out.write(f"{who}{words}\n")
        self._out.flush()
