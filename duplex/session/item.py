"""One item of a conversation."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

Role = Literal["user", "assistant", "system"]
Status = Literal["in_progress", "completed", "incomplete"]


_ITEM_BYTES = 600
"""An item with one part, and its place in a conversation, without its text: measured on CPython 3.11."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Text or audio.

    Attributes:
        kind: ``text`` or ``audio``.
        text: the text, or the transcript of the audio; None while that is not known yet.
        audio_ms: length of the audio; for an assistant's, what was sent of it, or heard after a truncation.
    """

    kind: Literal["text", "audio"]
    text: str | None
    audio_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message of the conversation. Items are immutable; a change replaces the item under its id."""

    item_id: str
    role: Role
    status: Status
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All its words."""
        return " ".join(part.text for part in self.parts if part.text)

    @property
    def chars(self) -> int:
        """Length of all its words."""
        return sum(len(part.text or "") for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, in bytes."""
        return _ITEM_BYTES + sum(sys.getsizeof(part.text) for part in self.parts if part.text is not None)

    @property
    def awaits_transcript(self) -> bool:
        """Whether a part of it has been spoken but not recognised yet."""
        return self.role == "user" and any(part.text is None for part in self.parts)
