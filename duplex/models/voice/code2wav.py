"""The `code2wav` stage: spectra of clauses in, audio out in chunks that can be played at once."""

from __future__ import annotations

import zlib

import numpy as np

from duplex.audio.pcm import to_int16
from duplex.connector.payload import Payload, Spectrum, Voiced
from duplex.engine.base import StageRequest
from duplex.engine.worker import Emit, Usage, Worker
from duplex.errors import StateError
from duplex.models.hibari.vocoder import HOP, RATE_HZ, Vocoder
from duplex.session.fence import Fence

_CHUNK_FRAMES = (7, 10, 14, 20)
"""Frames of audio in the first, second, third and any later chunk of a turn: 87.5 to 250 ms. The first is short to be
heard early; the later ones are long because fewer are cheaper."""

_REST = 4 * HOP

_AHEAD = 2
"""Frames of a clause that are needed before its first sample is complete."""

_FADE = RATE_HZ // 500
"""Samples over which a clause fades in and out, 2 ms: its silence was cut off, and that must not leave a step."""

_FADE_IN = np.linspace(0, 1, _FADE, endpoint=False, dtype=np.float32)


class Code2WavStage:
    """Makes a worker for each turn. There is nothing to load: the vocoder is arithmetic."""

    def load(self) -> None:
        """Run it once, so that no listener waits for its first use."""
        rng = np.random.default_rng(0)
        quiet = tuple(np.full((601, 20), -20, np.float32) for _ in range(5))
        Vocoder(parts=quiet, f0=np.full(20, 150, np.float32), rng=rng).take(20)

    def __call__(self, request: StageRequest) -> Worker:
        return Code2WavWorker(rng=_rng(request.fence))


def _rng(fence: Fence) -> np.random.Generator:
    """The noise of one turn: the same whenever the turn is the same."""
    return np.random.default_rng(zlib.crc32(repr(fence).encode()))


class Code2WavWorker:
    """`Spectrum` in, `Voiced` out: 24 kHz, the first chunk at most 90 ms.

    The characters spoken grow evenly over a clause; its last chunk has its last character.
    """

    def __init__(self, *, rng: np.random.Generator) -> None:
        self._rng = rng
        self._chunks = 0

    def feed(self, payload: Payload, emit: Emit) -> None:
        """Speak one clause.

        Raises:
            StateError: it is no spectrum.
        """
        if not isinstance(payload, Spectrum):
            raise StateError("code2wav takes spectra")
        vocoder = Vocoder(parts=payload.parts, f0=payload.f0, rng=self._rng)
        length = payload.text_end - payload.text_start
        waveform = np.zeros(0, np.float32)
        left = vocoder.samples
        while left:
            size = self._next_size(left)
            if len(waveform) < size:
                ahead = _AHEAD if left == vocoder.samples else 0
                more = vocoder.take((size - len(waveform)) // HOP + ahead)
                waveform = np.concatenate([waveform, more])
            chunk, waveform = waveform[:size], waveform[size:]
            if left == vocoder.samples:
                chunk[:_FADE] *= _FADE_IN
            left -= size
            if not left:
                chunk[-_FADE:] *= _FADE_IN[::-1]
            text_end = payload.text_start + length * (vocoder.samples - left) // vocoder.samples
            self._chunks += 1
            if not emit(Voiced(samples=to_int16(chunk), rate_hz=RATE_HZ, text_end=text_end)):
                return

    def _next_size(self, left: int) -> int:
        size = HOP * _CHUNK_FRAMES[min(self._chunks, len(_CHUNK_FRAMES) - 1)]
        # A rest too short to be worth a chunk goes with the one before it.
        return left if left <= size or (self._chunks and left - size <= _REST) else size

    def finish(self, emit: Emit) -> Usage:
        return Usage()

    def close(self) -> None:
        """Nothing is held."""
