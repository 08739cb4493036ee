"""End of turn: whether what was said sounds complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from duplex.audio.pcm import Samples
from duplex.engine.onnx import OnnxSession
from duplex.models.smart_turn.features import RATE_HZ, SAMPLES, log_mel

__all__ = ["RATE_HZ", "SAMPLES", "SmartTurn"]


class SmartTurn:
    """The model, loaded once and used from any thread.

    It hears intonation, not words: short answers and full sentences are fine, an unfinished phrase is told from a
    finished one in two cases of five only. Use it to end a turn early, beside a longest wait, never alone.

    Args:
        path: ``smart_turn/end_of_turn.onnx`` (version 3.2, for the CPU).

    Raises:
        ModelStoreError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._session = OnnxSession(path)
        self.probability(np.zeros(RATE_HZ, dtype=np.int16))

    def probability(self, samples: Samples) -> float:
        """That the turn is complete, in [0, 1]. `samples`: int16 [n] at 16 kHz, of which the last 8 s count."""
        (probability,) = self._session.run({"input_features": log_mel(samples)[None]})
        return float(probability[0, 0])
