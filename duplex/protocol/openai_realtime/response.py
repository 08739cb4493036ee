"""The response object of `response.created` and `response.done`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from duplex.protocol.openai_realtime.item import MessageItem
from duplex.protocol.openai_realtime.patch import Modality
from duplex.protocol.openai_realtime.session import Format

Status = Literal["in_progress", "completed", "cancelled", "incomplete", "failed"]


class ResponseError(Struct, frozen=True, kw_only=True):
    message: str
    type: str = "server_error"
    code: str = "stage_failed"


class StatusDetails(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a response did not complete."""

    type: Literal["cancelled", "incomplete", "failed"]
    reason: str | None = None
    error: ResponseError | None = None


class CachedTokens(Struct, frozen=True, kw_only=True):
    text_tokens: int
    audio_tokens: int = 0


class InputTokens(Struct, frozen=True, kw_only=True):
    text_tokens: int
    cached_tokens: int
    cached_tokens_details: CachedTokens
    audio_tokens: int = 0


class OutputTokens(Struct, frozen=True, kw_only=True):
    text_tokens: int
    audio_tokens: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of the language model: speech is recognised and made outside it, so audio counts none."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    input_token_details: InputTokens
    output_token_details: OutputTokens


class ResponseAudioOutput(Struct, frozen=True, kw_only=True):
    voice: str
    format: Format = Format()


class ResponseAudio(Struct, frozen=True, kw_only=True):
    output: ResponseAudioOutput


class Response(Struct, frozen=True, kw_only=True):
    """`usage` and `status_details` are null while the response is under way."""

    id: str
    status: Status
    status_details: StatusDetails | None
    output: list[MessageItem]
    conversation_id: str
    output_modalities: list[Modality]
    max_output_tokens: int | Literal["inf"]
    audio: ResponseAudio
    usage: Usage | None
    metadata: dict[str, str] | None
    object: Literal["realtime.response"] = "realtime.response"
