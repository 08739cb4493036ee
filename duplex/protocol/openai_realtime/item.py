"""Items of a conversation, as the server shows them: audio by its length and words, never its bytes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TextContent(Struct, frozen=True, kw_only=True):
    """``input_text`` in a user's or the system's message, ``output_text`` in an answer."""

    type: Literal["input_text", "output_text"]
    text: str


class AudioContent(Struct, frozen=True, kw_only=True):
    """``input_audio`` or ``output_audio``; `transcript` is null while the words are not known."""

    type: Literal["input_audio", "output_audio"]
    transcript: str | None


class MessageItem(Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    id: str
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["user", "assistant", "system"]
    content: list[TextContent | AudioContent]
    object: Literal["realtime.item"] = "realtime.item"


class TextPart(Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """The part of a `response.content_part` event; its kinds have shorter names than an item's."""

    text: str


class AudioPart(Struct, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    transcript: str


Part = TextPart | AudioPart
