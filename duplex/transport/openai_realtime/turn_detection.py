"""Turn detection: the client's patch onto what is in force, and what is in force onto the wire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duplex.protocol.openai_realtime import session as wire
from duplex.protocol.openai_realtime.patch import TurnDetectionPatch
from duplex.session.settings import SemanticVad, ServerVad, TurnDetection
from duplex.transport.openai_realtime.refusal import invalid, unsupported

PARAM = "session.audio.input.turn_detection"

_COMMON = {"create_response": "create_response", "interrupt_response": "interrupt_response"}
_SERVER = {
    "threshold": "threshold",
    "prefix_padding_ms": "prefix_padding_ms",
    "silence_duration_ms": "silence_ms",
} | _COMMON
_SEMANTIC = {"eagerness": "eagerness"} | _COMMON


def merged(present: TurnDetection | None, patch: TurnDetectionPatch) -> TurnDetection:
    """What holds after the patch: fields that it leaves out stay as they are, also when the kind changes.

    Raises:
        ClientError: the patch names no kind where there is none, has a field of the other kind, or wants a time-out.
    """
    if patch.idle_timeout_ms is not None:
        raise unsupported(
            "time-outs of the user's silence are not served; leave it out", param=f"{PARAM}.idle_timeout_ms"
        )
    if patch.type is None:
        if present is None:
            raise invalid(
                "turn detection is off; say server_vad or semantic_vad to switch it on",
                param=f"{PARAM}.type",
                code="missing_required_parameter",
            )
        _refuse_foreign(present, patch)
    base = _of_kind(present, patch.type)
    names = _SERVER if isinstance(base, ServerVad) else _SEMANTIC
    given: dict[str, Any] = {ours: getattr(patch, theirs) for theirs, ours in names.items()}
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def _of_kind(present: TurnDetection | None, kind: str | None) -> TurnDetection:
    wanted = {"server_vad": ServerVad, "semantic_vad": SemanticVad}.get(kind or "")
    if present is not None and (wanted is None or isinstance(present, wanted)):
        return present
    fresh = ServerVad() if wanted is ServerVad else SemanticVad()
    if present is None:
        return fresh
    return replace(fresh, create_response=present.create_response, interrupt_response=present.interrupt_response)


def _refuse_foreign(present: TurnDetection, patch: TurnDetectionPatch) -> None:
    kind, other, foreign = (
        ("server_vad", "semantic_vad", _SEMANTIC)
        if isinstance(present, ServerVad)
        else ("semantic_vad", "server_vad", _SERVER)
    )
    for name in foreign:
        if name not in _COMMON and getattr(patch, name) is not None:
            raise invalid(
                f"{kind} is in force and has no such field; say type {other} with it", param=f"{PARAM}.{name}"
            )


def shown(detection: TurnDetection | None) -> wire.ServerVad | wire.SemanticVad | None:
    """The wire's form."""
    match detection:
        case None:
            return None
        case ServerVad():
            return wire.ServerVad(
                threshold=detection.threshold,
                prefix_padding_ms=detection.prefix_padding_ms,
                silence_duration_ms=detection.silence_ms,
                create_response=detection.create_response,
                interrupt_response=detection.interrupt_response,
            )
        case SemanticVad():
            return wire.SemanticVad(
                eagerness=detection.eagerness,
                create_response=detection.create_response,
                interrupt_response=detection.interrupt_response,
            )
