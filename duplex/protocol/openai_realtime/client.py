"""What a client may send. Unknown fields are ignored: clients are newer or older than this server.

A field that may be left out is None when it is, and None when it is null, except where null means "switch it off":
there the field is UNSET when it is left out.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from duplex.protocol.openai_realtime.patch import ResponsePatch, SessionPatch, Text

Id = Annotated[str, Meta(max_length=128)]


class ClientEvent(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Any event of the client. `event_id`: the client's own name for it, given back in an error about it."""

    event_id: Annotated[str, Meta(max_length=512)] | None = None


class SessionUpdate(ClientEvent, frozen=True, kw_only=True, tag="session.update"):
    session: SessionPatch


class AudioAppend(ClientEvent, frozen=True, kw_only=True, tag="input_audio_buffer.append"):
    """`audio`: base64 on the wire; little-endian 16-bit mono at 24 kHz."""

    audio: bytes


class AudioCommit(ClientEvent, frozen=True, kw_only=True, tag="input_audio_buffer.commit"):
    pass


class AudioClear(ClientEvent, frozen=True, kw_only=True, tag="input_audio_buffer.clear"):
    pass


class OutputAudioClear(ClientEvent, frozen=True, kw_only=True, tag="output_audio_buffer.clear"):
    """WebRTC only: there the server knows what is still to be played."""


class ContentIn(Struct, frozen=True, kw_only=True):
    """One part of a message. Its kinds are the wire's; only text can be put into a conversation by hand."""

    type: str
    text: Text | None = None


class ItemIn(Struct, frozen=True, kw_only=True):
    """An item as a client writes it."""

    type: str
    id: Id | None = None
    role: str | None = None
    content: Annotated[list[ContentIn], Meta(max_length=256)] | None = None


class ItemCreate(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.create"):
    """`previous_item_id`: None for the end, ``root`` for the beginning."""

    item: ItemIn
    previous_item_id: Id | None = None


class ItemRetrieve(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.retrieve"):
    item_id: Id


class ItemDelete(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.delete"):
    item_id: Id


class ItemTruncate(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.truncate"):
    item_id: Id
    content_index: Annotated[int, Meta(ge=0)]
    audio_end_ms: Annotated[int, Meta(ge=0)]


class ResponseCreate(ClientEvent, frozen=True, kw_only=True, tag="response.create"):
    response: ResponsePatch | None = None


class ResponseCancel(ClientEvent, frozen=True, kw_only=True, tag="response.cancel"):
    response_id: Id | None = None


AnyClientEvent = (
    SessionUpdate
    | AudioAppend
    | AudioCommit
    | AudioClear
    | OutputAudioClear
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
)


class EventHead(Struct, frozen=True, kw_only=True):
    """What is read of an event that cannot be read as a whole."""

    event_id: Any = None
    type: Any = None
