"""Settings: the client's patch onto what holds, and what holds onto the wire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import UnsetType

from duplex.errors import ClientError
from duplex.protocol.native import settings as wire
from duplex.session.settings import (
    RetentionRatio,
    SemanticVad,
    ServerVad,
    SessionSettings,
    Truncation,
    TurnDetection,
)
from duplex.transport import tools
from duplex.transport.info import Served

_COMMON = ("create_response", "interrupt_response")
_FIELDS = {ServerVad: ("threshold", "prefix_padding_ms", "silence_ms", *_COMMON), SemanticVad: ("eagerness", *_COMMON)}
_KINDS = {"silence": ServerVad, "semantic": SemanticVad}
_NAMES = {ServerVad: "silence", SemanticVad: "semantic"}


def patched(settings: SessionSettings, patch: wire.SettingsPatch, served: Served) -> SessionSettings:
    """What holds after the patch. Raises ClientError for what is not served; nothing has changed then."""
    if patch.voice is not None and patch.voice not in served.voices:
        message = f"There is no voice {patch.voice!r}; there are: {', '.join(served.voices)}."
        raise ClientError(message, code="invalid_value", param="settings.voice")
    plain = ("instructions", "modality", "voice", "speed", "temperature", "tool_choice")
    given: dict[str, Any] = {name: getattr(patch, name) for name in plain if getattr(patch, name) is not None}
    if not isinstance(patch.max_output_tokens, UnsetType):
        given["max_output_tokens"] = patch.max_output_tokens
    if patch.turn_detection is None:
        given["turn_detection"] = None
    elif not isinstance(patch.turn_detection, UnsetType):
        given["turn_detection"] = _detection(settings.turn_detection, patch.turn_detection)
    if patch.tools is not None:
        given["tools"] = tools.checked(patch.tools, param="settings.tools")
    if patch.truncation is not None:
        given["truncation"] = _truncation(patch.truncation)
    return replace(settings, **given)


def _truncation(asked: wire.Truncation) -> Truncation:
    if not isinstance(asked, wire.RetentionRatio):
        return asked
    return RetentionRatio(retention_ratio=asked.retention_ratio, most_tokens=asked.most_tokens)


def _shown_truncation(truncation: Truncation) -> wire.Truncation:
    if not isinstance(truncation, RetentionRatio):
        return truncation
    return wire.RetentionRatio(retention_ratio=truncation.retention_ratio, most_tokens=truncation.most_tokens)


def _detection(present: TurnDetection | None, patch: wire.DetectionPatch) -> TurnDetection | None:
    if patch.type == "none":
        base: TurnDetection | None = None
    elif patch.type is None or isinstance(present, _KINDS[patch.type]):
        base = present
    else:
        base = _KINDS[patch.type]()
        if present is not None:
            base = replace(base, **{name: getattr(present, name) for name in _COMMON})
    allowed = _FIELDS[type(base)] if base is not None else ()
    given = {name: value for name in patch.__struct_fields__ if (value := getattr(patch, name)) is not None}
    given.pop("type", None)
    for name in given:
        if name not in allowed:
            kind = _NAMES[type(base)] if base is not None else "none"
            message = f"Turn detection of the type {kind!r} has no {name}; name the type that has it."
            raise ClientError(message, code="invalid_value", param=f"settings.turn_detection.{name}")
    return replace(base, **given) if base is not None else None


def shown(settings: SessionSettings, served: Served) -> wire.Settings:
    """The wire's form."""
    return wire.Settings(
        instructions=settings.instructions,
        modality=settings.modality,
        truncation=_shown_truncation(settings.truncation),
        voice=settings.voice or served.voices[0],
        speed=settings.speed,
        max_output_tokens=settings.max_output_tokens,
        temperature=settings.temperature,
        turn_detection=_shown_detection(settings.turn_detection),
        tools=[
            wire.Tool(name=tool.name, description=tool.description, parameters=tools.parameters(tool))
            for tool in settings.tools
        ],
        tool_choice=settings.tool_choice,
    )


def _shown_detection(
    detection: TurnDetection | None,
) -> wire.SilenceDetection | wire.SemanticDetection | wire.NoDetection:
    match detection:
        case None:
            return wire.NoDetection()
        case ServerVad():
            return wire.SilenceDetection(**{name: getattr(detection, name) for name in _FIELDS[ServerVad]})
        case SemanticVad():
            return wire.SemanticDetection(**{name: getattr(detection, name) for name in _FIELDS[SemanticVad]})
