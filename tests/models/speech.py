"""Speech for the tests: a human recording, sentences spoken by the project's own voice, and how words are compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jiwer
import numpy as np
import soxr
from hibari import Hibari
from numpy.typing import NDArray

from duplex.audio.pcm import to_int16
from duplex.audio.wav import read_wav
from duplex.connector.payload import Payload

RATE_HZ = 16_000
ModelPath = Callable[[str], Path]

SENTENCES = (
    "Hello there, how can I help you today?",
    "The weather in Berlin will be sunny tomorrow afternoon.",
    "Please turn off the kitchen lights and lock the front door.",
    "The quick brown fox jumps over the lazy dog near the river.",
    "Can you explain how a neural network learns from examples?",
    "Robots should stop moving when a person steps into the room.",
)

BECKETT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."


def human(model_path: ModelPath) -> NDArray[np.int16]:
    """Ten seconds of a person reading `BECKETT`, int16 at 16 kHz."""
    samples, rate_hz = read_wav(model_path("moonshine/beckett.wav"))
    assert rate_hz == RATE_HZ
    return samples


class Speaker:
    """Says sentences: int16 at 16 kHz, with a little noise so that silence is never digital."""

    def __init__(self, model_path: ModelPath) -> None:
        self._voice = Hibari(model=str(model_path("hibari/acoustic.onnx")), threads=1)
        self._noise = np.random.default_rng(0)

    def say(self, text: str) -> NDArray[np.int16]:
        audio = soxr.resample(self._voice(text), self._voice.sample_rate, RATE_HZ).astype(np.float32)
        return to_int16(audio) + self.silence(len(audio) / RATE_HZ)[: len(audio)]

    def silence(self, length_s: float) -> NDArray[np.int16]:
        """A quiet room, about -66 dBFS."""
        return self._noise.normal(0.0, 16.0, round(length_s * RATE_HZ) + 1).astype(np.int16)


def word_error_rate(said: Sequence[str], heard: Sequence[str]) -> float:
    """Over all pairs together; case and punctuation do not count."""
    return float(jiwer.wer([_words(text) for text in said], [_words(text) for text in heard]))


def _words(text: str) -> str:
    return " ".join(re.sub(r"[^a-z' ]", " ", text.lower()).split())


class Said:
    """An `emit` that keeps what it is given; `over` makes it say that the request is over."""

    def __init__(self) -> None:
        self.payloads: list[Payload] = []
        self.over = False

    def __call__(self, payload: Payload) -> bool:
        if not self.over:
            self.payloads.append(payload)
        return not self.over
