"""WAV files of every shape, and files that are none."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from duplex.audio.wav import read_wav, write_wav


def write_raw(path: Path, *, width: int, channels: int, data: bytes) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16_000)
        file.writeframes(data)


def test_round_trip(tmp_path: Path) -> None:
    samples = np.array([0, 1, -1, 32767, -32768], np.int16)
    write_wav(tmp_path / "a.wav", samples, 24_000)
    back, rate_hz = read_wav(tmp_path / "a.wav")
    assert rate_hz == 24_000
    assert back.tolist() == samples.tolist()


@pytest.mark.parametrize(
    ("width", "data"),
    [
        (1, bytes([128, 192, 64])),
        (2, np.array([0, 16384, -16384], "<i2").tobytes()),
        (3, b"\x7f\x00\x00" + b"\x00\x00\x40" + b"\x00\x00\xc0"),
        (4, np.array([0, 1 << 30, -(1 << 30)], "<i4").tobytes()),
    ],
)
def test_every_width_means_the_same(tmp_path: Path, width: int, data: bytes) -> None:
    write_raw(tmp_path / "a.wav", width=width, channels=1, data=data)
    assert read_wav(tmp_path / "a.wav")[0].tolist() == [0, 16384, -16384]


def test_channels_are_averaged_without_overflow(tmp_path: Path) -> None:
    data = np.array([[30000, 32000], [-32768, -32768], [100, -100]], "<i2").tobytes()
    write_raw(tmp_path / "a.wav", width=2, channels=2, data=data)
    assert read_wav(tmp_path / "a.wav")[0].tolist() == [31000, -32768, 0]


@pytest.mark.parametrize("content", [b"", b"RIFF", b"this is a text, not a recording" * 10])
def test_what_is_no_wav_file_is_named_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.wav is not a PCM WAV file \(.+\); convert it"):
        read_wav(path)


def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "float.wav"
    write_raw(path, width=4, channels=1, data=b"\0" * 8)
    data = bytearray(path.read_bytes())
    data[20:22] = (3).to_bytes(2, "little")  # WAVE_FORMAT_IEEE_FLOAT
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="not a PCM WAV file"):
        read_wav(path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    write_raw(tmp_path / "a.wav", width=2, channels=1, data=b"")
    with pytest.raises(ValueError, match="holds no audio"):
        read_wav(tmp_path / "a.wav")
