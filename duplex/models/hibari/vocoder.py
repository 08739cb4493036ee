"""Predicted spectra to a waveform, a few frames at a time.

The synthesis is that of the hibari package (0.2.1, Apache-2.0, `hibari/dsp.py`), in our own words and incremental:

    S = exp(lh) · e^(iπ·tanh θ) · STFT(pulses(f0)) + exp(ln) · Z + exp(lr) · e^(iφ),   Z complex white noise

then one inverse STFT: 1,200 points, hop 300, periodic Hann, 24 kHz, frames centred, edges reflected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 24_000
HOP = 300
"""Samples per frame: 12.5 ms."""
FFT = 1200
BINS = FFT // 2 + 1

Floats = NDArray[np.float32]

_HALF = FFT // 2
_OVERLAP = FFT // HOP
VOICED_HZ = 40.0
"""Lowest pitch; a predicted one below means that there is no voice."""
_HIGHEST_HARMONIC_HZ = 11_000.0
LOUDEST = 7.0
"""Upper bound of a log magnitude."""
_WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)).astype(np.float32)
_PULSE_WINDOW = _WINDOW / (FFT / 4)
"""With it a cosine of amplitude 1 peaks at 1, which is what exp(lh) scales."""
_WINDOW_ENERGY = (_WINDOW * _WINDOW).reshape(_OVERLAP, HOP)
_SMALLEST_ENERGY = 1e-11

# Sample j of frame k lies at k + (j + .5)/hop - .5 on the axis of frames.
_OFFSET = (np.arange(HOP) + 0.5) / HOP - 0.5
_SHARE_OF_NEXT = (_OFFSET % 1.0).astype(np.float32)
_IN_FIRST_HALF = _OFFSET < 0


class Vocoder:
    """The waveform of one clause, taken in as many frames at a time as one likes: the result is the same.

    Not thread-safe.

    Args:
        parts: five float32 [601, frames] arrays, as in `connector.payload.Spectrum`.
        f0: float32 [frames], Hz; below 40 is unvoiced.
        rng: source of the noise; what it gives depends on nothing but the number of frames before.
    """

    def __init__(self, *, parts: Sequence[Floats], f0: Floats, rng: np.random.Generator) -> None:
        self._parts = parts
        self._f0 = np.pad(f0, 1, mode="edge") if len(f0) else f0
        self._rng = rng
        self.frames = len(f0)
        self._next = 0
        self._phase = 0.0
        self._made = 0
        self._pulses = np.zeros(0, np.float32)
        """Pulse train around the next frame: from `_next` · hop - 600 to `_made` · hop."""
        self._sum = np.zeros((_OVERLAP - 1, HOP), np.float32)
        """Overlapping rest of the frames so far."""

    @property
    def samples(self) -> int:
        """Length of the whole clause."""
        return self.frames * HOP

    @property
    def done(self) -> bool:
        return self._next == self.frames

    def take(self, frames: int) -> Floats:
        """Compute up to `frames` more frames.

        Returns:
            float32 [n], within about ±1: the samples that are complete now. The first call gives two hops less than
            it takes frames, the last call two hops more.
        """
        first, end = self._next, min(self._next + frames, self.frames)
        if first == end:
            return np.zeros(0, np.float32)
        self._next = end
        spectrum = self._spectrum(first, end)
        blocks = np.fft.irfft(spectrum, FFT, axis=1).astype(np.float32, copy=False)
        blocks *= _WINDOW
        count = end - first
        total = np.zeros((count + _OVERLAP - 1, HOP), np.float32)
        total[: _OVERLAP - 1] = self._sum
        for k, part in enumerate(np.split(blocks.reshape(count, _OVERLAP, HOP), _OVERLAP, axis=1)):
            total[k : k + count] += part[:, 0]
        self._sum = total[count:].copy()
        # In units of hops, the sum is complete up to `end`; the clause itself begins two hops into it.
        complete = total[: count + _HALF // HOP] if end == self.frames else total[:count]
        waveform = (complete / self._energy(first, len(complete))).reshape(-1)
        return waveform[max(0, _HALF - first * HOP) :]

    def _energy(self, first: int, hops: int) -> Floats:
        """Summed squared windows over the hops [first, first + hops), less at the clause's ends."""
        energy = np.zeros((hops, HOP), np.float32)
        for k in range(_OVERLAP):
            covered = np.arange(first, first + hops) - k
            energy[(covered >= 0) & (covered < self.frames)] += _WINDOW_ENERGY[k]
        return np.maximum(energy, _SMALLEST_ENERGY)

    def _spectrum(self, first: int, end: int) -> NDArray[np.complex64]:
        """Frames [first, end) as complex64 [frames, 601]."""
        harmonic, theta, noise, free, phi = (
            np.array(part[:, first:end].T, order="C")
            for part in self._parts  # a copy: payloads are read-only
        )
        spectrum = np.fft.rfft(self._pulse_frames(first, end), axis=1).astype(np.complex64, copy=False)
        rotation = np.empty((end - first, BINS), np.complex64)
        np.tanh(theta, out=theta)
        theta *= np.float32(np.pi)
        _polar(_magnitude(harmonic), theta, rotation)
        spectrum *= rotation
        grain = self._rng.standard_normal((end - first, 2 * BINS), dtype=np.float32).view(np.complex64)
        grain *= _magnitude(noise)
        spectrum += grain
        _polar(_magnitude(free), phi, rotation)
        spectrum += rotation
        return spectrum

    def _pulse_frames(self, first: int, end: int) -> Floats:
        """Windowed stretches of the pulse train, [frames, 1200]."""
        # The frame at `end - 1` reaches two hops past its centre.
        self._extend(min(end + 1, self.frames))
        known = self._pulses
        if first == 0:
            known = np.concatenate([_reflected(known, _HALF), known])
        if end + 1 > self.frames:
            missing = (end + 1 - self.frames) * HOP
            known = np.concatenate([known, _reflected(known[::-1], missing)[::-1]])
        frames = np.lib.stride_tricks.sliding_window_view(known, FFT)[::HOP][: end - first]
        self._pulses = known[(end - first) * HOP :][: FFT - HOP]
        return frames * _PULSE_WINDOW

    def _extend(self, upto: int) -> None:
        """Append the pulse train of the frames [made, upto): every harmonic below 11 kHz at amplitude 1.

        Σ cos(h·t), h = 1..H, is sin((H + ½)·t) / (2·sin(t/2)) - ½.
        """
        if upto <= self._made:
            return
        before, here, after = (self._f0[self._made + k : upto + k, None] for k in range(3))
        hertz = np.where(
            _IN_FIRST_HALF,
            before * (1 - _SHARE_OF_NEXT) + here * _SHARE_OF_NEXT,
            here * (1 - _SHARE_OF_NEXT) + after * _SHARE_OF_NEXT,
        ).reshape(-1)
        voiced = hertz > VOICED_HZ
        np.maximum(hertz, VOICED_HZ, out=hertz)
        turns = self._phase + np.cumsum(hertz, dtype=np.float64) / RATE_HZ
        self._phase = float(turns[-1] % 1.0)
        angle = (2 * np.pi * (turns % 1.0)).astype(np.float32)
        order = np.floor(np.float32(_HIGHEST_HARMONIC_HZ) / hertz) + np.float32(0.5)
        divisor = 2 * np.sin(angle * np.float32(0.5))
        at_pulse = np.abs(divisor) <= 2e-3  # where both vanish: their limit
        divisor[at_pulse] = 1
        pulses = np.sin(order * angle) / divisor
        pulses[at_pulse] = order[at_pulse]
        pulses -= np.float32(0.5)
        pulses[~voiced] = 0
        self._made = upto
        self._pulses = np.concatenate([self._pulses, pulses])


def _magnitude(log: Floats) -> Floats:
    np.minimum(log, np.float32(LOUDEST), out=log)
    return np.exp(log, out=log)


def _polar(magnitude: Floats, angle: Floats, out: NDArray[np.complex64]) -> None:
    np.cos(angle, out=out.real)
    np.sin(angle, out=out.imag)
    out *= magnitude


def _reflected(samples: Floats, count: int) -> Floats:
    """`count` samples before the first of `samples`, mirrored at it; a short clause is mirrored again and again."""
    return np.pad(samples, (count, 0), mode="reflect")[:count]
