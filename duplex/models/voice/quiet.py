"""Where speech lies in a stretch of audio, by loudness alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duplex.audio.pcm import FULL_SCALE, Samples

RATE_HZ = 16_000

_FRAME = RATE_HZ * 20 // 1000
_MARGIN = RATE_HZ * 150 // 1000
"""Kept on both sides: words begin and end more quietly than they are."""
_PAUSE_FRAMES = 10
_SILENCE = (FULL_SCALE * 10.0 ** (-55.0 / 20.0)) ** 2
"""Power below which nothing is speech: -55 dBFS."""
_RANGE = 10.0 ** (-30.0 / 10.0)
"""Speech is at most this much weaker than its loudest frame: 30 dB."""


def speech_span(samples: Samples) -> tuple[int, int] | None:
    """First and one past the last sample that may be speech, with a margin; None where all is silence.

    `samples`: int16 [n] at 16 kHz.
    """
    power = _frame_power(samples)
    if not len(power) or power.max() < _SILENCE:
        return None
    loud = np.flatnonzero(power >= max(_SILENCE, float(power.max()) * _RANGE))
    first, last = int(loud[0]) * _FRAME, (int(loud[-1]) + 1) * _FRAME
    return max(0, first - _MARGIN), min(len(samples), last + _MARGIN)


def quietest_cut(samples: Samples, start: int, end: int) -> int:
    """The middle of the quietest 200 ms that lie within [start, end) of `samples`: where a cut hurts least."""
    power = _frame_power(samples[start:end])
    sums = np.convolve(power, np.ones(_PAUSE_FRAMES), mode="valid")
    return start + (int(sums.argmin()) + _PAUSE_FRAMES // 2) * _FRAME


def _frame_power(samples: Samples) -> NDArray[np.float64]:
    """Mean square of each 20 ms; a shorter last piece counts as a frame."""
    whole = len(samples) // _FRAME * _FRAME
    power: NDArray[np.float64] = np.square(samples[:whole], dtype=np.float64).reshape(-1, _FRAME).mean(axis=1)
    if whole < len(samples):
        power = np.append(power, np.square(samples[whole:], dtype=np.float64).mean())
    return power
