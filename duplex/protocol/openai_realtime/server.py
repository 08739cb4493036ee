"""What the server sends. Every event has an id that is unique in its connection."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from duplex.protocol.openai_realtime.item import MessageItem, Part
from duplex.protocol.openai_realtime.response import Response
from duplex.protocol.openai_realtime.session import Session


class ServerEvent(Struct, frozen=True, kw_only=True, tag_field="type"):
    event_id: str


class ErrorDetails(Struct, frozen=True, kw_only=True):
    """`event_id`: the client's, of the event at fault; `param`: the field at fault, dotted."""

    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    event_id: str | None = None


class ErrorEvent(ServerEvent, frozen=True, kw_only=True, tag="error"):
    error: ErrorDetails


class QueueUpdated(ServerEvent, frozen=True, kw_only=True, tag="duplex.queue.updated"):
    """No place is free yet. An event of our own, and the only one that comes before `session.created`.

    OpenAI has none for it: its `rate_limits.updated` is about requests and tokens that are left, and clients that read
    it would take a number of people for one of those. A client that does not know a type passes it over, as the stock
    one does. `position` 1 is the next; `eta_s` is null where nothing is known.
    """

    position: int
    eta_s: float | None


class SessionCreated(ServerEvent, frozen=True, kw_only=True, tag="session.created"):
    session: Session


class SessionUpdated(ServerEvent, frozen=True, kw_only=True, tag="session.updated"):
    session: Session


class Conversation(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["realtime.conversation"] = "realtime.conversation"


class ConversationCreated(ServerEvent, frozen=True, kw_only=True, tag="conversation.created"):
    conversation: Conversation


class ItemAdded(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.added"):
    item: MessageItem
    previous_item_id: str | None


class ItemDone(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.done"):
    item: MessageItem
    previous_item_id: str | None


class ItemRetrieved(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.retrieved"):
    item: MessageItem


class ItemDeleted(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.deleted"):
    item_id: str


class ItemTruncated(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.truncated"):
    item_id: str
    content_index: int
    audio_end_ms: int


class DurationUsage(Struct, frozen=True, kw_only=True, tag_field="type", tag="duration"):
    """`seconds`: of the audio that was recognised."""

    seconds: float


class TranscriptionDelta(
    ServerEvent, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.delta"
):
    item_id: str
    delta: str
    content_index: int = 0


class TranscriptionCompleted(
    ServerEvent, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.completed"
):
    item_id: str
    transcript: str
    usage: DurationUsage
    content_index: int = 0


class TranscriptionError(Struct, frozen=True, kw_only=True):
    message: str
    type: str = "server_error"
    code: str = "transcription_failed"


class TranscriptionFailed(
    ServerEvent, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.failed"
):
    item_id: str
    error: TranscriptionError
    content_index: int = 0


class AudioCommitted(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.committed"):
    item_id: str
    previous_item_id: str | None


class AudioCleared(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.cleared"):
    pass


class SpeechStarted(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.speech_started"):
    """`audio_start_ms`: with the prefix padding, from the first sample of the session."""

    item_id: str
    audio_start_ms: int


class SpeechStopped(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.speech_stopped"):
    item_id: str
    audio_end_ms: int


class ResponseCreated(ServerEvent, frozen=True, kw_only=True, tag="response.created"):
    response: Response


class ResponseDone(ServerEvent, frozen=True, kw_only=True, tag="response.done"):
    response: Response


class OutputEvent(ServerEvent, frozen=True, kw_only=True):
    """Says what it is about: a response has one item here, and the item one part."""

    response_id: str
    output_index: int = 0


class OutputItemAdded(OutputEvent, frozen=True, kw_only=True, tag="response.output_item.added"):
    item: MessageItem


class OutputItemDone(OutputEvent, frozen=True, kw_only=True, tag="response.output_item.done"):
    item: MessageItem


class PartEvent(OutputEvent, frozen=True, kw_only=True):
    item_id: str
    content_index: int = 0


class PartAdded(PartEvent, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: Part


class PartDone(PartEvent, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: Part


class TextDelta(PartEvent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str


class TextDone(PartEvent, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str


class AudioDelta(PartEvent, frozen=True, kw_only=True, tag="response.output_audio.delta"):
    """`delta`: base64 on the wire; little-endian 16-bit mono at 24 kHz."""

    delta: bytes | memoryview


class AudioDone(PartEvent, frozen=True, kw_only=True, tag="response.output_audio.done"):
    pass


class TranscriptDelta(PartEvent, frozen=True, kw_only=True, tag="response.output_audio_transcript.delta"):
    delta: str


class TranscriptDone(PartEvent, frozen=True, kw_only=True, tag="response.output_audio_transcript.done"):
    transcript: str
