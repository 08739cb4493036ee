"""The acoustic network: symbols to spectra, a clause at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duplex.engine.onnx import OnnxSession
from duplex.models.hibari.vocoder import FFT, HOP, LOUDEST, RATE_HZ, VOICED_HZ, Floats

_SILENT_DB = -56.0
"""Frames below are silence; the softest consonants of this voice begin at about -50 dBFS."""

_LOOKED_AT = 64
"""Frames at either end in which silence is looked for: the voice puts about 25 before a clause, 40 after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Predicted frames, 80 a second.

    Attributes:
        parts: five float32 [601, frames] arrays, see `connector.payload.Spectrum`.
        f0: float32 [frames], Hz.
    """

    parts: tuple[Floats, ...]
    f0: Floats

    def __len__(self) -> int:
        return len(self.f0)

    def trimmed(self, *, lead_s: float, tail_s: float) -> Frames:
        """Without silence before the first and after the last sound, but for `lead_s` and `tail_s` of it.

        Silence that is not there is not added; where there is no sound, nothing is cut.
        """
        head = np.flatnonzero(self._level_db(0, _LOOKED_AT) > _SILENT_DB)
        first_looked = max(0, len(self) - _LOOKED_AT)
        tail = np.flatnonzero(self._level_db(first_looked, len(self)) > _SILENT_DB)
        if not len(head) or not len(tail):
            return self
        first = max(0, int(head[0]) - _frames(lead_s))
        end = min(len(self), first_looked + int(tail[-1]) + 1 + _frames(tail_s))
        return Frames(parts=tuple(part[:, first:end] for part in self.parts), f0=self.f0[first:end])

    def _level_db(self, first: int, end: int) -> Floats:
        """Expected level of each frame, dBFS.

        By Parseval: a frame of squared sum E over the 601 bins has the mean square 2·E / (1200² · 3/8), 3/8 being the
        mean square of the Hann window. The noise counts twice, being complex.
        """
        harmonic, _, noise, free, _ = (np.minimum(part[:, first:end], LOUDEST) for part in self.parts)
        # Pulses reach two frames to either side.
        voiced = np.convolve(self.f0 > VOICED_HZ, np.ones(5), mode="same")[first:end] > 0
        energy = np.exp(2 * harmonic).sum(0) * voiced + (2 * np.exp(2 * noise) + np.exp(2 * free)).sum(0)
        level: Floats = 10 * np.log10(energy * (2 / (FFT * FFT * 0.375)) + 1e-20)
        return level


def _frames(seconds: float) -> int:
    return round(seconds * RATE_HZ / HOP)


class Acoustic:
    """The network, loaded once; any thread may use it.

    Args:
        path: ``hibari/acoustic.onnx``.

    Raises:
        ModelStoreError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._session = OnnxSession(path)

    def __call__(self, symbols: Sequence[int], *, speed: float) -> Frames:
        """Speak `symbols` (see `Phonemizer`); `speed` 1.0 is the voice's own pace, 2.0 is twice as fast."""
        feeds: dict[str, NDArray[Any]] = {"ids": np.array([symbols], np.int64), "speed": np.array([speed], np.float32)}
        outputs = self._session.run(feeds, ("lh", "theta", "ln", "lr", "phi", "f0"))
        *parts, f0 = (output[0] for output in outputs)
        return Frames(parts=tuple(parts), f0=f0)
