"""Items of a conversation, and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from duplex.protocol.native.settings import Modality

ItemId = Annotated[str, Meta(max_length=128)]


class Part(Struct, frozen=True, kw_only=True):
    """Text, or audio with its transcript; `text` is null while that is not known. `audio_ms`: length of the audio."""

    kind: Literal["text", "audio"]
    text: str | None = None
    audio_ms: int = 0


class Item(Struct, frozen=True, kw_only=True):
    """One message of the conversation; of an interrupted answer only what was heard."""

    item_id: str
    role: Literal["user", "assistant", "system"]
    status: Literal["in_progress", "completed", "incomplete"]
    parts: list[Part]


class NewItem(Struct, frozen=True, kw_only=True):
    """A message of text, as a client writes it. `item_id`: the client's choice, or empty for the server's."""

    role: Literal["user", "assistant", "system"]
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    item_id: ItemId = ""


class Response(Struct, frozen=True, kw_only=True):
    """An answer as it stands.

    Attributes:
        epoch: its media frames carry it.
        reason: why it was cancelled (``turn_detected``, ``client_cancelled``) or is incomplete
            (``max_output_tokens``); else empty.
        error: why it failed; else empty.
        audio_ms: audio sent.
    """

    response_id: str
    epoch: int
    modality: Modality
    status: Literal["in_progress", "completed", "cancelled", "incomplete", "failed"]
    reason: str = ""
    error: str = ""
    item: Item | None = None
    audio_ms: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    metadata: dict[str, str] = {}
