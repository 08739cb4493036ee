"""What a client says about a session or a response: only what is present changes.

Ranges are OpenAI's where it states them. The upper bounds of paddings and silences are this server's own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Modality = Literal["audio", "text"]
Text = Annotated[str, Meta(max_length=262_144)]
"""What a client may write at once, in characters: far more than any model reads, and little enough to be kept."""
MaxOutputTokens = Annotated[int, Meta(ge=1, le=4096)] | Literal["inf"]


class FormatPatch(Struct, frozen=True, kw_only=True):
    """`rate`: samples per second."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] | None = None
    rate: int | None = None


class TurnDetectionPatch(Struct, frozen=True, kw_only=True):
    """Fields of both kinds of turn detection; `type` says which kind, or may be left out to keep the present one."""

    type: Literal["server_vad", "semantic_vad"] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    threshold: Annotated[float, Meta(gt=0, lt=1)] | None = None
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=5000)] | None = None
    silence_duration_ms: Annotated[int, Meta(ge=50, le=20_000)] | None = None
    idle_timeout_ms: int | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None


class TranscriptionPatch(Struct, frozen=True, kw_only=True):
    """Recognition of the user's words. `language`: an ISO 639-1 code, also with a region."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


class NoiseReductionPatch(Struct, frozen=True, kw_only=True):
    type: Literal["near_field", "far_field"] | None = None


class AudioInputPatch(Struct, frozen=True, kw_only=True):
    """Null switches turn detection, transcription or noise reduction off."""

    format: FormatPatch | None = None
    turn_detection: TurnDetectionPatch | UnsetType | None = UNSET
    transcription: TranscriptionPatch | UnsetType | None = UNSET
    noise_reduction: NoiseReductionPatch | UnsetType | None = UNSET


class VoiceId(Struct, frozen=True, kw_only=True):
    id: str


class AudioOutputPatch(Struct, frozen=True, kw_only=True):
    """`speed`: 1 is the voice's own."""

    format: FormatPatch | None = None
    voice: str | VoiceId | None = None
    speed: Annotated[float, Meta(ge=0.25, le=1.5)] | None = None


class AudioPatch(Struct, frozen=True, kw_only=True):
    input: AudioInputPatch | None = None
    output: AudioOutputPatch | None = None


class ToolPatch(Struct, frozen=True, kw_only=True):
    """A tool as a client offers it. `parameters`: a JSON Schema of an object."""

    type: str
    name: str | None = None
    description: Text | None = None
    parameters: Any = None


class TokenLimits(Struct, frozen=True, kw_only=True):
    """`post_instructions`: most tokens of the conversation without its instructions."""

    post_instructions: Annotated[int, Meta(ge=64, le=1_000_000)] | None = None


class RetentionRatio(Struct, frozen=True, kw_only=True, tag_field="type", tag="retention_ratio"):
    """The oldest exchanges go, where a conversation is too long, until so much of the room is taken."""

    retention_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    token_limits: TokenLimits | None = None


Truncation = Literal["auto", "disabled"] | RetentionRatio


class SessionPatch(Struct, frozen=True, kw_only=True):
    """`session` of `session.update`."""

    type: str
    output_modalities: list[Modality] | None = None
    instructions: Text | None = None
    max_output_tokens: MaxOutputTokens | None = None
    audio: AudioPatch | None = None
    tools: list[ToolPatch] | None = None
    tool_choice: str | dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None
    tracing: str | dict[str, Any] | None = None
    truncation: Truncation | None = None
    include: list[str] | None = None


class ResponseAudioOutputPatch(Struct, frozen=True, kw_only=True):
    format: FormatPatch | None = None
    voice: str | VoiceId | None = None


class ResponseAudioPatch(Struct, frozen=True, kw_only=True):
    output: ResponseAudioOutputPatch | None = None


Label = Annotated[str, Meta(max_length=64)]
LabelValue = Annotated[str, Meta(max_length=512)]


class ResponsePatch(Struct, frozen=True, kw_only=True):
    """`response` of `response.create`. `metadata`: at most 16 labels of the client's, given back with it."""

    conversation: Literal["auto", "none"] | None = None
    input: list[Any] | None = None
    instructions: Text | None = None
    output_modalities: list[Modality] | None = None
    max_output_tokens: MaxOutputTokens | None = None
    metadata: Annotated[dict[Label, LabelValue], Meta(max_length=16)] | None = None
    audio: ResponseAudioPatch | None = None
    tools: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None
