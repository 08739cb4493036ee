"""What the session tells, as the wire's messages and frames."""

from __future__ import annotations

import msgspec

from duplex.audio.pcm import to_bytes
from duplex.errors import ClientError
from duplex.protocol.native import VERSION, server
from duplex.protocol.native import item as wire
from duplex.protocol.native.media import AGAIN, SPEECH, Frame, pack
from duplex.session import item as kernel
from duplex.session import notices
from duplex.session.notices import Notice
from duplex.session.port import Audio, Entry, LeasedPort
from duplex.transport.native import configuration
from duplex.transport.native.wire import Wire

_encoder = msgspec.json.Encoder()


class Outgoing:
    """Translates for one connection.

    Args:
        port: how this connection holds the session.
        wire: what was agreed.
        max_message_bytes, heartbeat_s: told to the client.
    """

    def __init__(self, *, port: LeasedPort, wire: Wire, max_message_bytes: int, heartbeat_s: float) -> None:
        self._port = port
        self._wire = wire
        self._terms = server.Terms(
            input_hz=wire.opening.input_hz,
            output_hz=wire.served.output_hz,
            playback=wire.opening.playback,
            ahead_ms=wire.served.ahead_ms,
            max_message_bytes=max_message_bytes,
            grace_s=port.grace_s,
            heartbeat_s=heartbeat_s,
        )

    def encode(self, entry: Entry) -> str | bytes:
        """A text message, or a binary one."""
        if isinstance(entry.told, Audio):
            return _frame(entry.told, entry)
        return text(self._message(entry.told, entry.sequence))

    def resumed(self) -> str:
        """The first message of a connection that resumes."""
        return text(
            server.Resumed(
                version=VERSION,
                session_id=self._port.session_id,
                generation=self._port.generation,
                token=self._port.token,
                taken=self._wire.taken,
                input_samples=self._wire.input_samples,
                resync=self._port.resynced,
                terms=self._terms,
            )
        )

    def _message(self, told: Notice, sequence: int) -> server.AnyServerMessage:
        match told:
            case notices.Queued(position=position, eta_s=eta_s):
                return server.Queued(position=position, eta_s=eta_s)
            case (
                notices.Opened()
                | notices.Snapshot()
                | notices.Configured()
                | notices.Refused()
                | notices.Ending()
                | notices.Closed()
            ):
                return self._of_session(told, sequence)
            case (
                notices.ResponseCreated()
                | notices.ResponseItemAdded()
                | notices.ResponseText()
                | notices.ResponseDone()
                | notices.Interrupted()
            ):
                return _of_answer(told, sequence)
            case (
                notices.ItemAdded()
                | notices.ItemDone()
                | notices.ItemRetrieved()
                | notices.ItemDeleted()
                | notices.ItemTruncated()
            ):
                return _of_conversation(told, sequence)
            case _:
                return _of_input(told, sequence)

    def _of_session(
        self,
        told: notices.Opened
        | notices.Snapshot
        | notices.Configured
        | notices.Refused
        | notices.Ending
        | notices.Closed,
        sequence: int,
    ) -> server.AnyServerMessage:
        match told:
            case notices.Opened():
                return server.Opened(
                    sequence=sequence,
                    version=VERSION,
                    session_id=told.session_id,
                    conversation_id=told.conversation_id,
                    generation=self._port.generation,
                    token=self._port.token,
                    terms=self._terms,
                    settings=configuration.shown(told.settings, self._wire.served),
                )
            case notices.Snapshot():
                return server.Snapshot(
                    sequence=sequence,
                    session_id=told.session_id,
                    conversation_id=told.conversation_id,
                    settings=configuration.shown(told.settings, self._wire.served),
                    items=[item(one) for one in told.items],
                    response=response(told.response) if told.response is not None else None,
                    speaking=told.speaking,
                )
            case notices.Configured(settings=settings):
                return server.Updated(sequence=sequence, settings=configuration.shown(settings, self._wire.served))
            case notices.Refused(error=error):
                return refused(error, sequence=sequence)
            case notices.Ending(reason=reason, in_s=in_s):
                return server.Ending(sequence=sequence, reason=reason, in_s=round(in_s, 3))
            case notices.Closed(reason=reason, message=message):
                return server.Closed(sequence=sequence, reason=reason, message=message)


def text(message: server.AnyServerMessage) -> str:
    """A message as it travels."""
    return _encoder.encode(message).decode()


def refused(error: ClientError, *, sequence: int = 0, retry_after_s: float | None = None) -> server.Error:
    """What tells the client of a refusal."""
    return server.Error(
        code=error.code,
        message=error.message,
        param=error.param,
        id=error.event_id,
        sequence=sequence,
        retry_after_s=retry_after_s,
    )


def item(one: kernel.Item) -> wire.Item:
    """The wire's form."""
    parts = [wire.Part(kind=part.kind, text=part.text, audio_ms=part.audio_ms) for part in one.parts]
    return wire.Item(item_id=one.item_id, role=one.role, status=one.status, parts=parts)


def response(info: notices.ResponseInfo) -> wire.Response:
    """The wire's form."""
    return wire.Response(
        response_id=info.response_id,
        epoch=info.epoch,
        modality=info.modality,
        status=info.status,
        reason=info.status_reason,
        error=info.error,
        item=item(info.item) if info.item is not None else None,
        audio_ms=info.audio_ms,
        input_tokens=info.input_tokens,
        cached_tokens=info.cached_tokens,
        output_tokens=info.output_tokens,
        metadata=dict(info.metadata),
    )


def _frame(audio: Audio, entry: Entry) -> bytes:
    frame = Frame(
        kind=SPEECH,
        flags=AGAIN if entry.again else 0,
        epoch=audio.fence.epoch,
        sequence=entry.sequence,
        timestamp=audio.start,
        payload=to_bytes(audio.pcm),
    )
    return pack(frame)


def _of_answer(
    told: notices.ResponseCreated
    | notices.ResponseItemAdded
    | notices.ResponseText
    | notices.ResponseDone
    | notices.Interrupted,
    sequence: int,
) -> server.AnyServerMessage:
    match told:
        case notices.ResponseCreated():
            return server.ResponseCreated(sequence=sequence, response=response(told.response))
        case notices.ResponseItemAdded():
            return server.ResponseItem(
                sequence=sequence,
                response_id=told.response_id,
                item_id=told.item.item_id,
                previous_item_id=told.previous_item_id,
            )
        case notices.ResponseText(response_id=response_id, item_id=item_id, text=words):
            return server.ResponseText(sequence=sequence, response_id=response_id, item_id=item_id, text=words)
        case notices.ResponseDone():
            return server.ResponseDone(sequence=sequence, response=response(told.response))
        case notices.Interrupted():
            return server.Interrupted(
                sequence=sequence,
                response_id=told.response_id,
                item_id=told.item_id,
                epoch=told.epoch,
                samples=told.samples,
            )


def _of_conversation(
    told: notices.ItemAdded | notices.ItemDone | notices.ItemRetrieved | notices.ItemDeleted | notices.ItemTruncated,
    sequence: int,
) -> server.AnyServerMessage:
    match told:
        case notices.ItemAdded():
            return server.ItemAdded(sequence=sequence, item=item(told.item), previous_item_id=told.previous_item_id)
        case notices.ItemDone():
            return server.ItemDone(sequence=sequence, item=item(told.item), previous_item_id=told.previous_item_id)
        case notices.ItemRetrieved():
            return server.ItemRetrieved(sequence=sequence, item=item(told.item))
        case notices.ItemDeleted(item_id=item_id):
            return server.ItemDeleted(sequence=sequence, item_id=item_id)
        case notices.ItemTruncated(item_id=item_id, audio_end_ms=audio_end_ms):
            return server.ItemTruncated(sequence=sequence, item_id=item_id, audio_end_ms=audio_end_ms)


def _of_input(
    told: notices.SpeechStarted
    | notices.SpeechStopped
    | notices.AudioCommitted
    | notices.AudioCleared
    | notices.Transcribed
    | notices.TranscriptionFailed,
    sequence: int,
) -> server.AnyServerMessage:
    match told:
        case notices.SpeechStarted(item_id=item_id, at_ms=at_ms):
            return server.SpeechStarted(sequence=sequence, item_id=item_id, at_ms=at_ms)
        case notices.SpeechStopped(item_id=item_id, at_ms=at_ms):
            return server.SpeechStopped(sequence=sequence, item_id=item_id, at_ms=at_ms)
        case notices.AudioCommitted(item_id=item_id, previous_item_id=previous):
            return server.Committed(sequence=sequence, item_id=item_id, previous_item_id=previous)
        case notices.AudioCleared():
            return server.Cleared(sequence=sequence)
        case notices.Transcribed(item_id=item_id, text=words, audio_ms=audio_ms):
            return server.Transcribed(sequence=sequence, item_id=item_id, text=words, audio_ms=audio_ms)
        case notices.TranscriptionFailed(item_id=item_id, message=message):
            return server.TranscriptionFailed(sequence=sequence, item_id=item_id, message=message)
