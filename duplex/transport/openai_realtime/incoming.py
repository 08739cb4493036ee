"""The client's messages, as events for the session."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from duplex.errors import ClientError
from duplex.protocol.openai_realtime import client
from duplex.session import events
from duplex.transport.openai_realtime import items, refusal
from duplex.transport.openai_realtime.input_audio import InputAudio
from duplex.transport.openai_realtime.negotiation import Negotiation
from duplex.transport.openai_realtime.requests import requested

LONG_CHARS = 1 << 20
"""A message beyond this has to be one piece of audio: reading any other keeps every other session waiting."""

REST_CHARS = 4096
"""What such a message may have beside the audio."""

_decoder = msgspec.json.Decoder(client.AnyClientEvent)


class Incoming:
    """Translates one connection's input.

    Args:
        negotiation: shared with the output, which hears what the session says to it.
    """

    def __init__(self, *, negotiation: Negotiation) -> None:
        self._negotiation = negotiation
        self._audio = InputAudio(session_hz=negotiation.served.input_hz)

    def decode(self, data: str | bytes) -> Iterable[events.ClientEvent]:
        """See `OpenAIDialect.decode`."""
        if isinstance(data, bytes):
            raise ClientError(
                "binary messages are not taken; send JSON text, with audio in it as base64", code="invalid_json"
            )
        if len(data) > LONG_CHARS and not _is_audio(data):
            raise ClientError(
                f"the event has {len(data)} bytes; only input_audio_buffer.append may have more than {LONG_CHARS}",
                code="event_too_long",
            )
        try:
            event = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise refusal.unreadable(data, error) from None
        try:
            return self._translate(event)
        except ClientError as error:
            error.event_id = event.event_id
            raise

    def _translate(self, event: client.AnyClientEvent) -> Iterable[events.ClientEvent]:
        match event:
            case client.AudioAppend():
                return self._audio.append(event.audio)
            case client.AudioCommit():
                return self._audio.commit(events.CommitAudio(event_id=event.event_id))
            case client.AudioClear():
                return self._audio.clear(events.ClearAudio(event_id=event.event_id))
            case _:
                return (self._one(event),)

    def _one(self, event: client.AnyClientEvent) -> events.ClientEvent:
        match event:
            case client.SessionUpdate():
                return self._negotiation.ask(event)
            case client.ItemCreate():
                return items.created(event)
            case client.ItemRetrieve():
                return events.RetrieveItem(item_id=event.item_id, event_id=event.event_id)
            case client.ItemDelete():
                return events.DeleteItem(item_id=event.item_id, event_id=event.event_id)
            case client.ItemTruncate():
                return events.TruncateItem(
                    item_id=event.item_id,
                    content_index=event.content_index,
                    audio_end_ms=event.audio_end_ms,
                    event_id=event.event_id,
                )
            case client.ResponseCreate():
                return requested(event, self._negotiation.latest.settings, self._negotiation.served)
            case client.ResponseCancel():
                return events.CancelResponse(response_id=event.response_id, event_id=event.event_id)
            case _:
                raise ClientError(
                    "output_audio_buffer.clear is for WebRTC; over a WebSocket send response.cancel, and "
                    "conversation.item.truncate with what was played",
                    code="unsupported",
                    param="type",
                )


def _is_audio(data: str) -> bool:
    """Whether it is all one string, the field `audio`, but for a little. Searches, and reads nothing."""
    field = data.find('"audio"')
    start = data.find('"', field + len('"audio"'))
    end = data.find('"', start + 1)
    return field >= 0 and len(data) - (end - start) <= REST_CHARS
