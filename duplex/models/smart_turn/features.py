"""Log-mel features as Whisper defines them, for the last eight seconds of a turn.

Source of the definition: `WhisperFeatureExtractor` of Hugging Face transformers with ``chunk_length=8`` and
``do_normalize=True``. Periodic Hann window of 400 samples every 160, centred with reflected edges; 80 Slaney
mel bands; log10, floored 8 below the loudest, mapped to about [-1, 1].
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from duplex.audio.pcm import Samples, to_float

RATE_HZ = 16_000
SAMPLES = 8 * RATE_HZ
BANDS = 80
FRAMES = 800

_FFT = 400
_HOP = 160
_HALF = _FFT // 2
_FLOOR = np.float32(1e-10)
_VARIANCE_EPSILON = 1e-7


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slaney's scale: linear, 200 Hz to 3 mels, up to 1 kHz; above it 27 mels for each factor of 6.4."""
    return np.where(mel < 15.0, 200.0 / 3.0 * mel, 1000.0 * np.exp(np.log(6.4) / 27.0 * (mel - 15.0)))


def _mel_bands() -> NDArray[np.float32]:
    """Triangles of equal area, float32 [201, 80], from 0 to 8 kHz."""
    top = 15.0 + 27.0 / np.log(6.4) * np.log(RATE_HZ / 2 / 1000.0)
    corners = _mel_to_hz(np.linspace(0.0, top, BANDS + 2))
    bins = np.linspace(0.0, RATE_HZ / 2, _HALF + 1)[:, None]
    low, centre, high = corners[:-2], corners[1:-1], corners[2:]
    triangles = np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre))
    return (np.maximum(0.0, triangles) * 2.0 / (high - low)).astype(np.float32)


_WINDOW = np.hanning(_FFT + 1)[:-1].astype(np.float32)
_MEL = _mel_bands()


def _mel_power(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 [n, 400] to power in each band, float32 [n, 80]."""
    spectrum = np.fft.rfft(frames * _WINDOW, axis=-1)
    power: NDArray[np.float32] = np.square(spectrum.real) + np.square(spectrum.imag)
    return power @ _MEL


def log_mel(samples: Samples) -> NDArray[np.float32]:
    """Features of the end of a turn.

    Args:
        samples: int16 [n] at 16 kHz; the last 128,000 count, and fewer are padded with silence in front.

    Returns:
        float32 [80, 800], about in [-1, 1].
    """
    audio = np.zeros(SAMPLES, dtype=np.float32)
    spoken = to_float(samples[-SAMPLES:])
    silent = SAMPLES - len(spoken)
    audio[silent:] = spoken
    # Silence counts in mean and variance, so that the padding is a constant afterwards: all frames inside it are
    # alike, and one stands for all. It is most of the work where a turn is short.
    audio = (audio - audio.mean(dtype=np.float64)) / np.sqrt(audio.var(dtype=np.float64) + _VARIANCE_EPSILON)
    audio = audio.astype(np.float32)
    padded = np.concatenate((audio[_HALF:0:-1], audio, audio[-2 : -_HALF - 2 : -1]))
    frames = sliding_window_view(padded, _FFT)[::_HOP][:FRAMES]
    alike = max(0, (silent - _HALF) // _HOP)
    power = np.empty((FRAMES, BANDS), dtype=np.float32)
    power[alike:] = _mel_power(frames[alike:])
    if alike:
        power[:alike] = _mel_power(frames[:1])
    log = np.log10(np.maximum(power, _FLOOR))
    np.maximum(log, log.max() - np.float32(8.0), out=log)
    return np.ascontiguousarray(((log + np.float32(4.0)) / np.float32(4.0)).T)
