"""The session object: what the server says is in force."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from duplex.protocol.openai_realtime.patch import Modality, Truncation

WIRE_HZ = 24_000
"""The one rate of `audio/pcm`, both ways."""


class Format(Struct, frozen=True, kw_only=True):
    """Signed 16-bit little-endian mono. `rate`: samples per second."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: int = WIRE_HZ


class ServerVad(Struct, frozen=True, kw_only=True, tag_field="type", tag="server_vad"):
    """The turn ends after a fixed silence."""

    threshold: float
    prefix_padding_ms: int
    silence_duration_ms: int
    create_response: bool
    interrupt_response: bool
    idle_timeout_ms: None = None


class SemanticVad(Struct, frozen=True, kw_only=True, tag_field="type", tag="semantic_vad"):
    """The turn ends when a model finds it complete."""

    eagerness: Literal["low", "medium", "high", "auto"]
    create_response: bool
    interrupt_response: bool


class Transcription(Struct, frozen=True, kw_only=True):
    """Recognition of the user's words: what is used, not what was asked for."""

    model: str
    language: str


class AudioInput(Struct, frozen=True, kw_only=True):
    turn_detection: ServerVad | SemanticVad | None
    transcription: Transcription | None
    format: Format = Format()
    noise_reduction: None = None


class AudioOutput(Struct, frozen=True, kw_only=True):
    voice: str
    speed: float
    format: Format = Format()


class Audio(Struct, frozen=True, kw_only=True):
    input: AudioInput
    output: AudioOutput


class Tool(Struct, frozen=True, kw_only=True):
    """A function that the model may ask to be called. `parameters`: a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]
    type: Literal["function"] = "function"


class Session(Struct, frozen=True, kw_only=True):
    """The whole effective configuration; what this server does not do is null here whatever was asked for."""

    id: str
    model: str
    output_modalities: list[Modality]
    instructions: str
    max_output_tokens: int | Literal["inf"]
    audio: Audio
    type: Literal["realtime"] = "realtime"
    object: Literal["realtime.session"] = "realtime.session"
    tools: list[Tool] = []
    tool_choice: Literal["auto", "none"] = "auto"
    truncation: Truncation = "auto"
    tracing: None = None
    prompt: None = None
    include: None = None
