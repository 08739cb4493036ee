"""Mono signed 16-bit audio: conversions, loudness, and where sound begins and ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
"""Mono int16 [n]; the rate travels beside it."""

FULL_SCALE = 32768.0
"""What a float sample of 1.0 is as an int16; -1.0 is representable, +1.0 is clipped to 32767."""

AUDIBLE_DBFS = -40.0
"""A window at or above this level counts as sound that a listener hears."""

SILENCE_DBFS = -120.0
"""What `level_dbfs` says of digital silence: below one step of 16 bits (-90 dBFS)."""


def to_float(samples: Samples) -> NDArray[np.float32]:
    """int16 [n] to float32 [n] in [-1, 1)."""
    return samples.astype(np.float32) / np.float32(FULL_SCALE)


def to_int16(samples: NDArray[np.float32]) -> Samples:
    """float32 [n] to int16 [n], rounded to nearest; what lies outside [-1, 1) is clipped, never wrapped."""
    scaled: NDArray[np.float32] = np.rint(samples * np.float32(FULL_SCALE))
    return scaled.clip(-FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


def from_bytes(data: bytes | bytearray | memoryview) -> Samples:
    """Little-endian bytes to int16 [n], without a copy where the machine is little-endian; read-only.

    Raises:
        ValueError: an odd number of bytes.
    """
    if len(data) % 2:
        raise ValueError(f"16-bit audio has an even number of bytes, not {len(data)}")
    return np.frombuffer(data, dtype="<i2").astype(np.int16, copy=False)


def to_bytes(samples: Samples) -> bytes:
    """int16 [n] to little-endian bytes [2 n]."""
    return samples.astype("<i2", copy=False).tobytes()


def level_dbfs(samples: Samples) -> float:
    """Root mean square in dB relative to full scale (a full-scale square wave is 0); silence or nothing: -120."""
    if not len(samples):
        return SILENCE_DBFS
    mean_square = float(np.mean(np.square(samples, dtype=np.float64))) / FULL_SCALE**2
    return max(SILENCE_DBFS, 10.0 * math.log10(mean_square)) if mean_square else SILENCE_DBFS


def levels_dbfs(samples: Samples, frame: int) -> tuple[float, ...]:
    """`level_dbfs` of consecutive frames of so many samples; a shorter last one is left out."""
    whole = samples[: len(samples) // frame * frame].astype(np.float64) / FULL_SCALE
    mean_square = np.square(whole).reshape(-1, frame).mean(axis=1)
    return tuple((10.0 * np.log10(np.maximum(mean_square, 10.0 ** (SILENCE_DBFS / 10.0)))).tolist())


def first_audible(
    samples: Samples, rate_hz: int, threshold_dbfs: float = AUDIBLE_DBFS, window_ms: int = 10
) -> int | None:
    """Start of the first window at or above the threshold, in samples; None where all is quieter.

    Windows are consecutive and do not overlap, so the answer is exact to one window; a shorter last one counts.
    """
    windows = _audible_windows(samples, rate_hz, threshold_dbfs, window_ms)
    return int(windows[0]) * _window(rate_hz, window_ms) if len(windows) else None


def last_audible(
    samples: Samples, rate_hz: int, threshold_dbfs: float = AUDIBLE_DBFS, window_ms: int = 10
) -> int | None:
    """One past the last sample of the last window at or above the threshold; None where all is quieter."""
    windows = _audible_windows(samples, rate_hz, threshold_dbfs, window_ms)
    return min((int(windows[-1]) + 1) * _window(rate_hz, window_ms), len(samples)) if len(windows) else None


def _window(rate_hz: int, window_ms: int) -> int:
    return max(1, rate_hz * window_ms // 1000)


def _audible_windows(
    samples: Samples, rate_hz: int, threshold_dbfs: float, window_ms: int
) -> NDArray[np.signedinteger]:
    window = _window(rate_hz, window_ms)
    whole = len(samples) // window * window
    squares = np.square(samples[:whole], dtype=np.float64).reshape(-1, window).mean(axis=1)
    if whole < len(samples):
        squares = np.append(squares, np.mean(np.square(samples[whole:], dtype=np.float64)))
    # Compared in powers: an exact threshold stays exact, and silence needs no logarithm of 0.
    return np.flatnonzero(squares >= FULL_SCALE**2 * 10.0 ** (threshold_dbfs / 10.0))
