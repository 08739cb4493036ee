"""The `endpoint` stage: says, when asked, whether the user sounds done.

A stage of its own, because an answer takes tens of milliseconds and voice activity must not wait for it.
"""

from __future__ import annotations

from pathlib import Path

from duplex.connector.payload import EndOfTurn, Mark, MarkKind, Payload, Pcm
from duplex.engine.base import StageRequest
from duplex.engine.worker import Emit, Usage, Worker
from duplex.errors import StageError, StateError
from duplex.models.smart_turn.detector import RATE_HZ, SAMPLES, SmartTurn
from duplex.models.voice.tape import AudioTape

_HELD_S = 10


class EndpointStage:
    """Loads the end-of-turn model once and makes a worker for each session.

    Args:
        detector: path of the model, ``smart_turn/end_of_turn.onnx``.
    """

    def __init__(self, *, detector: Path) -> None:
        self._path = detector
        self._detector: SmartTurn | None = None

    def load(self) -> None:
        """Raises ModelStoreError where the file cannot be read."""
        self._detector = SmartTurn(self._path)

    def __call__(self, request: StageRequest) -> Worker:
        if self._detector is None:
            raise StateError(f"{request.stage}: used before it was loaded")
        return EndpointWorker(stage=request.stage, detector=self._detector)


class EndpointWorker:
    """feed(`Pcm` at 16 kHz) stores; feed(`Mark` ASK) → `EndOfTurn` for the last 8 s of [start, end).

    Ten seconds are held, so a question may come two seconds late without a loss.
    """

    def __init__(self, *, stage: str, detector: SmartTurn) -> None:
        self._stage = stage
        self._detector = detector
        self._tape = AudioTape(capacity=_HELD_S * RATE_HZ)

    def feed(self, payload: Payload, emit: Emit) -> None:
        match payload:
            case Pcm(rate_hz=rate_hz) if rate_hz == RATE_HZ:
                self._tape.append(payload.samples, payload.start)
            case Mark(mark=MarkKind.ASK):
                turn = self._tape.read(max(payload.start, payload.end - SAMPLES), payload.end)
                emit(EndOfTurn(end=payload.end, probability=self._detector.probability(turn)))
            case Mark():
                pass
            case _:
                raise StageError(f"takes audio at {RATE_HZ} Hz and marks, not {payload.kind}", stage=self._stage)

    def finish(self, emit: Emit) -> Usage:
        """Unasked, it says nothing."""
        return Usage()

    def close(self) -> None:
        """Nothing is held but memory."""
