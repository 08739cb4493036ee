"""The `listen` stage: hears for as long as the session lives whether someone speaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from duplex.audio.pcm import Samples, levels_dbfs
from duplex.connector.payload import Payload, Pcm, Speech
from duplex.engine.base import StageRequest
from duplex.engine.worker import Emit, Usage, Worker
from duplex.errors import StageError, StateError
from duplex.models.silero.vad import RATE_HZ, WINDOW, SileroVad, VadStream

_FRAME = WINDOW // 4
"""Samples of which the loudness is told: 8 ms."""


class ListenStage:
    """Loads voice activity detection once and makes a worker for each session.

    Args:
        vad: path of the model, ``silero/vad.onnx``.
    """

    def __init__(self, *, vad: Path) -> None:
        self._path = vad
        self._vad: SileroVad | None = None

    def load(self) -> None:
        """Raises ModelStoreError where the file cannot be read."""
        self._vad = SileroVad(self._path)

    def __call__(self, request: StageRequest) -> Worker:
        if self._vad is None:
            raise StateError(f"{request.stage}: used before it was loaded")
        return ListenWorker(stage=request.stage, stream=self._vad.stream())


class ListenWorker:
    """feed(`Pcm` at 16 kHz, any length) → `Speech` for the windows that it completes."""

    def __init__(self, *, stage: str, stream: VadStream) -> None:
        self._stage = stage
        self._stream = stream
        self._end = 0
        self._unmeasured: Samples = np.zeros(0, np.int16)

    def feed(self, payload: Payload, emit: Emit) -> None:
        if not isinstance(payload, Pcm) or payload.rate_hz != RATE_HZ:
            raise StageError(f"takes audio at {RATE_HZ} Hz, not {payload.kind}", stage=self._stage)
        if payload.start != self._end:
            # A gap: windows keep true positions, and what came before says nothing about what comes now.
            self._stream.reset()
            self._unmeasured = payload.samples[:0]
        start = payload.start - self._stream.pending
        self._end = payload.start + len(payload.samples)
        audio = np.concatenate((self._unmeasured, payload.samples))
        if probabilities := self._stream.feed(payload.samples):
            levels = levels_dbfs(audio[: WINDOW * len(probabilities)], _FRAME)
            emit(Speech(start=start, window=WINDOW, probabilities=probabilities, levels=levels))
        self._unmeasured = audio[WINDOW * len(probabilities) :]

    def finish(self, emit: Emit) -> Usage:
        """An unfinished window says nothing."""
        return Usage()

    def close(self) -> None:
        """Nothing is held but memory."""
