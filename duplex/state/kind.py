"""What a piece of session state can be."""

from __future__ import annotations

from enum import StrEnum


class StateKind(StrEnum):
    """The kinds of typed state. A kind says what `StateRef.length` counts."""

    CONVERSATION = "conversation"
    """Items of a history."""
    KV = "kv"
    """Tokens of a prefix that a language model keeps."""
    RING = "ring"
    """Samples of the newest input."""
    LATENT = "latent"
    """Steps of a model's own recurrent state."""
    PAGES = "pages"
    """Pages of a shared pool."""
    TENSOR = "tensor"
    """Rows of one array."""
