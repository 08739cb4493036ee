"""Voice activity: one model shared by all sessions, and each session's stream through it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duplex.audio.pcm import Samples, to_float
from duplex.engine.onnx import OnnxSession

RATE_HZ = 16_000
WINDOW = 512
"""Samples per probability: 32 ms."""

_CONTEXT = 64
_RATE = np.array(RATE_HZ, dtype=np.int64)
_NO_SAMPLES = np.empty(0, dtype=np.float32)


class SileroVad:
    """The model, loaded once; any number of streams use it, from any thread.

    Args:
        path: ``silero/vad.onnx`` (version 6, 16 kHz).

    Raises:
        ModelStoreError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._session = OnnxSession(path, arena=True)
        self.stream().feed(np.zeros(WINDOW, dtype=np.int16))

    def stream(self) -> VadStream:
        """A new stream, at silence."""
        return VadStream(session=self._session)


class VadStream:
    """Audio in, probabilities out; carries the model's state, its context and an unfinished window. Not thread-safe."""

    def __init__(self, *, session: OnnxSession) -> None:
        self._session = session
        self.reset()

    def reset(self) -> None:
        """Forget all audio so far, as at the start of a session or after a gap."""
        self._state: NDArray[np.float32] = np.zeros((2, 1, 128), dtype=np.float32)
        self._context: NDArray[np.float32] = np.zeros(_CONTEXT, dtype=np.float32)
        self._rest: NDArray[np.float32] = _NO_SAMPLES

    @property
    def pending(self) -> int:
        """Samples of the window that is not full yet."""
        return len(self._rest)

    def feed(self, samples: Samples) -> tuple[float, ...]:
        """The probability in [0, 1] of each window that these int16 [n] samples at 16 kHz complete; n is free."""
        audio = np.concatenate((self._context, self._rest, to_float(samples)))
        windows = (len(audio) - _CONTEXT) // WINDOW
        probabilities = []
        for window in range(windows):
            start = window * WINDOW
            frame = audio[None, start : start + _CONTEXT + WINDOW]
            probability, self._state = self._session.run({"input": frame, "state": self._state, "sr": _RATE})
            probabilities.append(float(probability[0, 0]))
        used = windows * WINDOW
        self._context = audio[used : used + _CONTEXT].copy()
        self._rest = audio[used + _CONTEXT :].copy()
        return tuple(probabilities)
