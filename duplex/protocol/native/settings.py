"""A session's settings: whole, as the server tells them, and as patches of the client."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Modality = Literal["audio", "text"]
Eagerness = Literal["low", "medium", "high", "auto"]
Instructions = Annotated[str, Meta(max_length=100_000)]
Speed = Annotated[float, Meta(ge=0.25, le=1.5)]
MaxOutputTokens = Annotated[int, Meta(ge=1, le=1_000_000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]


class Tool(Struct, frozen=True, kw_only=True, tag_field="type", tag="function"):
    """A function that the model may ask to be called.

    Attributes:
        name: letters, digits, ``_`` and ``-``; no other tool has it.
        parameters: a JSON Schema of an object; null for no parameters.
    """

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    description: str = ""
    parameters: dict[str, Any] | None = None


ToolChoice = Literal["auto", "none"]
"""``none`` keeps the tools from the model. That one has to be called cannot be asked for yet."""


class RetentionRatio(Struct, frozen=True, kw_only=True, tag_field="type", tag="retention_ratio"):
    """The oldest exchanges go, where a conversation is too long for the model, until so much of the room is taken.

    Attributes:
        most_tokens: of the conversation without its instructions; null for what the model has room for.
    """

    retention_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    most_tokens: Annotated[int, Meta(ge=64, le=1_000_000)] | None = None


Truncation = Literal["auto", "disabled"] | RetentionRatio
"""``auto``: a ratio of the server's own; ``disabled``: an answer that there is no room for fails."""


class SilenceDetection(Struct, frozen=True, kw_only=True, tag_field="type", tag="silence"):
    """A turn ends after a fixed silence. `threshold`: speech probability that counts as speech."""

    threshold: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=5000)] = 300
    silence_ms: Annotated[int, Meta(ge=0, le=10_000)] = 500
    create_response: bool = True
    interrupt_response: bool = True


class SemanticDetection(Struct, frozen=True, kw_only=True, tag_field="type", tag="semantic"):
    """A turn ends when a model finds it complete. `eagerness`: how soon a turn that seems incomplete ends as well."""

    eagerness: Eagerness = "auto"
    create_response: bool = True
    interrupt_response: bool = True


class NoDetection(Struct, frozen=True, kw_only=True, tag_field="type", tag="none"):
    """A turn ends where the client commits it."""


class DetectionPatch(Struct, frozen=True, kw_only=True):
    """What is given replaces what holds; another `type` starts from that type's defaults, but for what both have."""

    type: Literal["silence", "semantic", "none"] | None = None
    threshold: Annotated[float, Meta(gt=0, lt=1)] | None = None
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=5000)] | None = None
    silence_ms: Annotated[int, Meta(ge=0, le=10_000)] | None = None
    eagerness: Eagerness | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """What holds. `max_output_tokens`: null for the server's own limit."""

    instructions: str
    modality: Modality
    truncation: Truncation = "auto"
    voice: str
    speed: float
    max_output_tokens: int | None
    temperature: float
    turn_detection: SilenceDetection | SemanticDetection | NoDetection
    tools: list[Tool] = []
    tool_choice: ToolChoice = "auto"


class SettingsPatch(Struct, frozen=True, kw_only=True):
    """What is given replaces what holds; what is left out, or null, stays. Null means something in two places: the
    server's own `max_output_tokens`, and no `turn_detection`, as its type ``none``. `tools` are given all at once."""

    instructions: Instructions | None = None
    modality: Modality | None = None
    voice: Annotated[str, Meta(max_length=64)] | None = None
    truncation: Truncation | None = None
    speed: Speed | None = None
    max_output_tokens: MaxOutputTokens | UnsetType | None = UNSET
    temperature: Temperature | None = None
    turn_detection: DetectionPatch | UnsetType | None = UNSET
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
