"""What a session may be told about itself; immutable, replaced as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from duplex.connector.payload import Tool

Eagerness = Literal["low", "medium", "high", "auto"]
Modality = Literal["audio", "text"]
ToolChoice = Literal["auto", "none"]


class Provisional(StrEnum):
    """What begins in a pause, before it is certain that the turn is over."""

    ANSWER = "answer"
    """Recognition, and the whole answer behind a shut gate; while the user speaks, what was said is read already."""
    RECOGNITION = "recognition"
    OFF = "off"
    """All begins at the end of the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVad:
    """The turn ends after a fixed silence (OpenAI Realtime `server_vad`).

    Attributes:
        threshold: speech probability from which a window counts as speech, in (0, 1).
        prefix_padding_ms: audio kept from before the detected onset.
        silence_ms: silence that ends the turn.
        create_response: whether the end of a turn starts an answer.
        interrupt_response: whether the start of speech interrupts an answer.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticVad:
    """A model is asked in each silence whether the turn is complete (OpenAI Realtime `semantic_vad`).

    Attributes:
        eagerness: how long a turn that seems incomplete is waited for: low 8 s, medium and auto 4 s, high 2 s.
        create_response, interrupt_response: as in `ServerVad`.
    """

    eagerness: Eagerness = "auto"
    create_response: bool = True
    interrupt_response: bool = True

    @property
    def max_silence_ms(self) -> int:
        """Silence that ends the turn whatever the model says."""
        return {"low": 8000, "medium": 4000, "auto": 4000, "high": 2000}[self.eagerness]


TurnDetection = ServerVad | SemanticVad
"""How turns end; None in its place means that the client commits by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRatio:
    """The oldest exchanges go where a conversation is too long (OpenAI Realtime `truncation`, `retention_ratio`).

    Attributes:
        retention_ratio: part of the room that is kept then, in (0, 1]; the less, the longer until the next cut.
        most_tokens: of the conversation without its instructions; None for what the model's context leaves.
    """

    retention_ratio: float = 0.8
    most_tokens: int | None = None


Truncation = Literal["auto", "disabled"] | RetentionRatio
"""What happens where a conversation is longer than the model's context: ``auto`` is a ratio of the server's own;
``disabled`` cuts nothing, and an answer that has no room fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Everything about a session that its client may change.

    Attributes:
        instructions: the system message; empty for none.
        modality: what answers are made of.
        voice: name of the voice; empty for the model's default.
        speed: of speech, 0.25 to 1.5.
        max_output_tokens: upper bound of one answer; None for the server's own.
        temperature: of sampling, 0 is greedy.
        turn_detection: see `TurnDetection`.
        tools: what the model may ask to be called.
        tool_choice: ``none`` keeps the tools from the model.
        truncation: see `Truncation`.
    """

    instructions: str = ""
    modality: Modality = "audio"
    voice: str = ""
    speed: float = 1.0
    max_output_tokens: int | None = None
    temperature: float = 0.0
    turn_detection: TurnDetection | None = SemanticVad()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    truncation: Truncation = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseOptions:
    """What one answer may have different from its session; None leaves the session's own.

    Attributes:
        instructions, modality, max_output_tokens, tool_choice: as in `SessionSettings`.
        metadata: the client's own labels, echoed in every notice about the response.
    """

    instructions: str | None = None
    modality: Modality | None = None
    max_output_tokens: int | None = None
    tool_choice: ToolChoice | None = None
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Bounds that the server sets on every session.

    Attributes:
        input_hz: rate of the audio that the session's stages listen to.
        output_hz: rate of the audio that they speak.
        audio_ahead_s: most audio that is sent before its time, so that an interruption has little to take back.
        provisional: what is begun in a pause, before it is certain that the turn is over.
        max_turn_s: longest turn of the user; then it is ended.
        max_output_tokens: upper bound of one answer.
        max_items: items of conversation kept; the oldest go first.
        max_chars: characters of their texts kept, likewise.
        context_tokens: room of the language model for a prompt with its answer.
        idle_s: time after which the session closes where the client sends nothing and is sent nothing.
        lifetime_s: time after which the session closes.
        notice_s: how long before either the client is told.
    """

    input_hz: int = 16_000
    output_hz: int = 24_000
    audio_ahead_s: float = 0.5
    provisional: Provisional = Provisional.ANSWER
    max_turn_s: float = 60.0
    max_output_tokens: int = 200
    max_items: int = 1000
    max_chars: int = 2_000_000
    context_tokens: int = 2048
    idle_s: float = 300.0
    lifetime_s: float = 3600.0
    notice_s: float = 30.0
