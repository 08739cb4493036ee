"""Change of sample rate, chunk by chunk, with no seam between chunks."""

from __future__ import annotations

import numpy as np
import soxr

from duplex.audio.pcm import Samples, to_float, to_int16


class Resampler:
    """Resamples one mono stream; its filter's memory spans the chunks.

    The output depends on the samples alone, never on how they were cut: chunked output equals one-shot output bit for
    bit. That holds because soxr works on float32 here; its int16 path dithers, and the dither follows the chunks.

    soxr's variable-rate engine runs at a fixed ratio, since it filters sample by sample where the fixed-rate engine
    waits for blocks of an FFT. Measured with soxr 1.1.0 on 20 ms chunks, 24 to 16 kHz:

    ==================  ====================  ==================  ==================  ==========
    engine              delay median / worst  gain at 7.5 kHz     alias of 9 kHz      CPU, 20 ms
    ==================  ====================  ==================  ==================  ==========
    fixed QQ            0.1 / 0.1 ms          -1.1 dB             -1.9 dB (none)      4 us
    fixed LQ            11.2 / 20.0 ms        -12.8 dB            -109 dB             4 us
    fixed MQ            21.4 / 37.6 ms        -0.5 dB             -116 dB             5 us
    fixed HQ            21.3 / 36.6 ms        -0.4 dB             -147 dB             5 us
    **variable (HQ)**   **10.0 / 10.0 ms**    **0.0 dB**          **-115 dB**         11 us
    ==================  ====================  ==================  ==================  ==========

    The delay is how much output is still owed after a `push`, constant over the stream: 10 ms for 24 to 16 kHz,
    15 ms for 16 to 24, 5 ms for 48 to 24, 30 ms for 8 to 24; `flush` gives the rest. Output sample i stands for the
    time i / to_hz to within two output samples. Equal rates pass through untouched and without delay.

    Args:
        from_hz, to_hz: rates of input and output.

    Raises:
        ValueError: a rate below 1.
    """

    def __init__(self, *, from_hz: int, to_hz: int) -> None:
        if from_hz < 1 or to_hz < 1:
            raise ValueError(f"sample rates are at least 1 Hz, not {from_hz} and {to_hz}")
        self.from_hz = from_hz
        self.to_hz = to_hz
        self._stream = self._open()

    def push(self, samples: Samples) -> Samples:
        """Take int16 [n]; give what is complete, int16 [m], where m may be 0."""
        if self._stream is None:
            return samples
        return to_int16(self._stream.resample_chunk(to_float(samples), last=False))

    def flush(self) -> Samples:
        """Give what is still owed, int16 [m]. The next `push` begins a new stream."""
        if self._stream is None:
            return np.zeros(0, np.int16)
        rest = to_int16(self._stream.resample_chunk(np.zeros(0, np.float32), last=True))
        self._stream = self._open()
        return rest

    def _open(self) -> soxr.ResampleStream | None:
        if self.from_hz == self.to_hz:
            return None
        return soxr.ResampleStream(self.from_hz, self.to_hz, 1, dtype="float32", quality="HQ", vr=True)


def resample(samples: Samples, *, from_hz: int, to_hz: int) -> Samples:
    """int16 [n] at once; the same samples as a `Resampler` gives in pieces."""
    resampler = Resampler(from_hz=from_hz, to_hz=to_hz)
    return np.concatenate([resampler.push(samples), resampler.flush()])
