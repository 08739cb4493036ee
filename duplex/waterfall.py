"""`GET /v1/turns/{response_id}`: where the time of one turn went."""

from __future__ import annotations

import msgspec

from duplex.orchestrator.trace import TraceLog
from duplex.session.turnlog import TurnRecord


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A moment. `value_ms`: a length of audio that belongs to it."""

    name: str
    ms: float
    value_ms: int | None = None


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage's own moments; None where it has not come to that."""

    name: str
    submitted_ms: float
    first_input_ms: float | None
    first_output_ms: float | None
    finished_ms: float | None
    chunks: int


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. All times in milliseconds from `t0`: the end of the user's speech, else the response's creation."""

    response_id: str
    session_id: str
    t0: str
    marks: tuple[Mark, ...]
    stages: tuple[Stage, ...]


def waterfall(turn: TurnRecord, traces: TraceLog) -> Waterfall | None:
    """Put together what the session and the orchestrator have written down; None where there is nothing yet."""
    origin = turn.origin_s
    if origin is None:
        return None

    def ms(at_s: float) -> float:
        return round(1000 * (at_s - origin), 2)

    def ms_or_none(at_s: float | None) -> float | None:
        return None if at_s is None else ms(at_s)

    stages = [
        Stage(
            name=name,
            submitted_ms=ms(stage.submitted_s),
            first_input_ms=ms_or_none(stage.first_input_s),
            first_output_ms=ms_or_none(stage.first_output_s),
            finished_ms=ms_or_none(stage.finished_s),
            chunks=stage.chunks,
        )
        for fence in turn.fences
        if (trace := traces.get(fence)) is not None
        for name, stage in trace.stages.items()
    ]
    moments = sorted(turn.moments, key=lambda moment: moment.at_s)
    spoken = any(moment.name == "speech_end" for moment in moments)
    return Waterfall(
        response_id=turn.response_id,
        session_id=turn.session_id,
        t0="end of the user's speech" if spoken else "creation of the response",
        marks=tuple(Mark(name=one.name, ms=ms(one.at_s), value_ms=one.value_ms) for one in moments),
        stages=tuple(sorted(stages, key=lambda stage: stage.submitted_ms)),
    )
