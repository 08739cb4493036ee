"""The names of what travels between stages."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The payload kinds that an edge may carry."""

    PCM = "pcm"
    MARK = "mark"
    SPEECH = "speech"
    END_OF_TURN = "end_of_turn"
    TRANSCRIPT = "transcript"
    PROMPT = "prompt"
    COMPLETENESS = "completeness"
    TEXT = "text"
    SPECTRUM = "spectrum"
    VOICED = "voiced"
    HIDDEN_STATES = "hidden_states"
    CODEC_CODES = "codec_codes"
    KV_BLOCKS = "kv_blocks"
    LATENTS = "latents"
    FRAMES = "frames"
    ACTIONS = "actions"
