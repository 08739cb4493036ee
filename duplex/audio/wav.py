"""WAV files through the standard library."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from duplex.audio.pcm import Samples, from_bytes, to_bytes, to_int16


def read_wav(path: Path) -> tuple[Samples, int]:
    """Read uncompressed PCM of 8, 16, 24 or 32 bits with any number of channels.

    Returns:
        int16 [n], the mean of all channels; and samples per second.

    Raises:
        ValueError: not such a file, or an empty one; one sentence that names the file and a remedy.
        OSError: the file cannot be opened.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate_hz = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        reason = str(error) or "it ends too early"
        raise ValueError(f"{path} is not a PCM WAV file ({reason}); convert it, for example with ffmpeg") from None
    whole = len(data) // (width * channels) * width * channels
    if not whole or rate_hz < 1:
        raise ValueError(f"{path} holds no audio; record it again")
    samples = _decode(data[:whole], width)
    if channels == 1:
        return samples, rate_hz
    mixed = samples.reshape(-1, channels).mean(axis=1, dtype=np.float32)
    return to_int16(mixed / np.float32(32768.0)), rate_hz


def write_wav(path: Path, samples: Samples, rate_hz: int) -> None:
    """Write int16 [n] as a mono 16-bit file. Raises OSError where it cannot."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(to_bytes(samples))


def _decode(data: bytes, width: int) -> Samples:
    match width:
        case 1:  # unsigned, by the format's definition
            return (np.frombuffer(data, np.uint8).astype(np.int16) - 128) * np.int16(256)
        case 2:
            return from_bytes(data)
        case 3:  # the low byte lies below 16 bits and is dropped
            return np.frombuffer(data, np.uint8).reshape(-1, 3)[:, 1:].copy().view("<i2").reshape(-1).astype(np.int16)
        case _:
            return (np.frombuffer(data, "<i4") >> 16).astype(np.int16)
