"""What is said to the detector: the committed clips and sentences spoken on the spot, each in a room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duplex.audio.pcm import FULL_SCALE, Samples, last_audible, to_int16
from duplex.client.player import ROOM_DBFS
from latency_bench.clips import load
from latency_bench.clips.make import RATE_HZ, SPEECH_DBFS, pink_noise, say, speaker

SPEEDS = (0.85, 0.95, 1.0, 1.05, 1.15)
SNRS_DB = (None, 30, None, 27, 35)
"""Speech to noise, in turns as `SPEEDS`; None for none."""

SEED = 500
"""Of the first sentence's synthesis; the next ones follow. The clips' own seeds are below it."""

BEFORE_S = 0.5
AFTER_S = 5.0
"""Of the room after the utterance: longer than the longest silence that a turn may have."""

PHASES = 512
"""Samples by which a take may begin later: where the windows of speech detection lie is a matter of chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """What is said.

    Attributes:
        name: of the clip, or the sentence itself.
        samples: int16 [n] at 16 kHz.
        room_dbfs: level of the noise around it.
    """

    group: str
    name: str
    samples: Samples
    room_dbfs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """An utterance in a room: int16 [n] at 16 kHz, and one past its last audible sample."""

    samples: Samples
    audible_end: int


def committed(group: str) -> list[Utterance]:
    """The clips of one group."""
    return [
        Utterance(
            group=group,
            name=clip.file,
            samples=clip.samples(RATE_HZ),
            room_dbfs=ROOM_DBFS if clip.noise_dbfs is None else clip.noise_dbfs,
        )
        for clip in load(group)
    ]


def spoken(group: str, sentences: Sequence[str]) -> list[Utterance]:
    """These sentences, made in the same way as the clips; the same samples in each run."""
    voice = speaker()
    utterances = []
    for number, words in enumerate(sentences):
        speech = say(words, speed=SPEEDS[number % len(SPEEDS)], seed=SEED + number, voice=voice)
        room_dbfs = ROOM_DBFS
        if (snr_db := SNRS_DB[number % len(SNRS_DB)]) is not None:
            room_dbfs = SPEECH_DBFS - snr_db
            speech = speech + pink_noise(len(speech), room_dbfs, number)
        utterances.append(Utterance(group=group, name=words, samples=to_int16(speech), room_dbfs=room_dbfs))
    return utterances


def in_a_room(utterance: Utterance, seed: int) -> Take:
    """Put noise before and after it; `seed` determines the noise, and when the utterance begins.

    Raises:
        ValueError: nothing of it is audible.
    """
    end = last_audible(utterance.samples, RATE_HZ)
    if end is None:
        raise ValueError(f"{utterance.name} is silent")
    chance = np.random.default_rng(seed)
    before = round(BEFORE_S * RATE_HZ) + int(chance.integers(PHASES))

    def room(length: int) -> Samples:
        noise = chance.normal(0.0, FULL_SCALE * 10 ** (utterance.room_dbfs / 20), length)
        return np.rint(noise).clip(-FULL_SCALE, FULL_SCALE - 1).astype(np.int16)

    samples = np.concatenate([room(before), utterance.samples, room(round(AFTER_S * RATE_HZ))])
    return Take(samples=samples, audible_end=before + end)
