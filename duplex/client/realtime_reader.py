"""OpenAI's events, as a conversation takes them, and what its client has to send because of them. Pure."""

from __future__ import annotations

from typing import Any

from duplex.client.conversation import Conversation
from duplex.client.events import Event, Response
from duplex.client.playout import Dropped

Message = dict[str, Any]
"""A client event to send."""


class RealtimeReader:
    """Reads the events of one connection into `conversation`."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def hush(self, now: float) -> list[Message]:
        """The listener has heard enough: stop what is being made and what is being played; returns what to send."""
        hushed = self._conversation.hush(now)
        cancels = [{"type": "response.cancel", "response_id": response_id} for response_id in hushed.making]
        return cancels + _truncated(hushed.dropped)

    def receive(self, event: Event, now: float) -> list[Message]:
        """Take one event that arrived at `now`, in seconds; returns what the client has to send because of it.

        Raises:
            TalkError: the event's audio cannot be decoded.
        """
        conversation = self._conversation
        match event.type:
            case "session.created" | "session.updated":
                session = event.session or {}
                detection = session.get("audio", {}).get("input", {}).get("turn_detection")
                conversation.configured(session, detection if isinstance(detection, dict) else None)
            case "duplex.queue.updated" if event.position is not None:
                conversation.observer.queued(event.position, event.eta_s)
            case "input_audio_buffer.speech_started":
                return _truncated(conversation.speech_started(now))
            case "input_audio_buffer.speech_stopped":
                conversation.speech_stopped(event.item_id, event.audio_end_ms, now)
            case "input_audio_buffer.committed":
                conversation.committed(event.item_id, now)
            case "conversation.item.input_audio_transcription.delta":
                conversation.hears(event.item_id, event.delta)
            case "conversation.item.input_audio_transcription.completed":
                conversation.heard(event.item_id, event.transcript or "")
            case "error":
                conversation.failed(event.error.message if event.error else "an error without a message")
            case _:
                self._answer(event, now)
        return []

    def _answer(self, event: Event, now: float) -> None:
        conversation = self._conversation
        match event.type:
            case "response.created":
                conversation.created((event.response or Response()).id, now)
            case "response.output_audio.delta":
                conversation.audio(event.response_id, event.item_id, event.pcm(), now)
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                conversation.says(event.response_id, event.delta)
            case "response.output_audio_transcript.done" | "response.output_text.done":
                conversation.said(event.response_id, event.transcript or event.text or "")
            case "response.done":
                response = event.response or Response()
                details = response.status_details
                conversation.done(
                    response.id,
                    status=response.status or "",
                    reason=(details.reason if details is not None else None) or "",
                    error=details.error.message if details is not None and details.error is not None else "",
                    now=now,
                )


def _truncated(dropped: Dropped | None) -> list[Message]:
    if dropped is None:
        return []
    return [
        {
            "type": "conversation.item.truncate",
            "item_id": dropped.item_id,
            "content_index": 0,
            "audio_end_ms": dropped.played_ms,
        }
    ]
