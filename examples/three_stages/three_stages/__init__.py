"""A toy model family: words become notes, and notes become audio. Numpy is all its intelligence."""

from __future__ import annotations

from collections.abc import Collection
from importlib import resources as files

import numpy as np

from duplex.connector.payload import Payload, Prompt, Spectrum, Text, Voiced
from duplex.engine.base import StageRequest
from duplex.engine.pool import WorkerPool
from duplex.engine.pooled import PooledEngine
from duplex.engine.worker import Emit, Usage, WorkerFactory
from duplex.errors import StateError
from duplex.models.family import Pipeline, Resources
from duplex.models.pooled import PooledPipeline
from duplex.orchestrator.graphfile import read

RATE_HZ = 24_000
NOTE_SAMPLES = RATE_HZ // 5
SCALE_HZ = 220 * 2 ** (np.array([0, 2, 4, 7, 9, 12, 14, 16]) / 12)
"""Two octaves of a pentatonic scale: whatever is said sounds well."""


class _Stage:
    """What the three have in common: nothing to load, nothing left at the end, nothing to give back."""

    def __init__(self, request: StageRequest) -> None:
        self.stage = request.stage

    def finish(self, emit: Emit) -> Usage:
        return Usage()

    def close(self) -> None:
        """Nothing is held."""

    def wrong(self, payload: Payload) -> StateError:
        return StateError(f"{self.stage} cannot take {payload.kind}")


class Words(_Stage):
    """`Prompt` in, the words of its last message out as `Text`."""

    def feed(self, payload: Payload, emit: Emit) -> None:
        if not isinstance(payload, Prompt):
            raise self.wrong(payload)
        start = 0
        for word in payload.messages[-1].text.split():
            if not emit(Text(text=word + " ", start=start)):
                return
            start += len(word) + 1


class Notes(_Stage):
    """`Text` in, one note for it out: a `Spectrum` of no more than a pitch."""

    def feed(self, payload: Payload, emit: Emit) -> None:
        if not isinstance(payload, Text):
            raise self.wrong(payload)
        pitch = SCALE_HZ[sum(payload.text.strip().encode()) % len(SCALE_HZ)]
        end = payload.start + len(payload.text)
        emit(Spectrum(parts=(), f0=np.array([pitch], np.float32), text_start=payload.start, text_end=end))


class Audio(_Stage):
    """`Spectrum` in, a plucked string of its pitch out: `Voiced`, 200 ms at 24 kHz."""

    def feed(self, payload: Payload, emit: Emit) -> None:
        if not isinstance(payload, Spectrum):
            raise self.wrong(payload)
        time_s = np.arange(NOTE_SAMPLES) / RATE_HZ
        sound = 12_000 * np.sin(2 * np.pi * float(payload.f0[0]) * time_s) * np.exp(-10 * time_s)
        emit(Voiced(samples=sound.astype(np.int16), rate_hz=RATE_HZ, text_end=payload.text_end))


WORKERS: dict[str, WorkerFactory] = {"words": Words, "notes": Notes, "audio": Audio}


class ThreeStages:
    """See `duplex.models.family.Family`."""

    name = "three-stages"
    graph = read(files.files(__package__) / "graph.toml")
    instructions = "Sing."
    voices = ("string",)
    transcriber = "none"

    def build(self, stages: Collection[str], resources: Resources) -> Pipeline:
        pool = WorkerPool(threads=resources.workers, name="three-stages", capacity=16 * resources.sessions)
        engines = {
            stage: PooledEngine(
                stage=stage,
                factory=factory,
                connector=resources.connector,
                pool=pool,
                priority=0,
                load=None,
                max_requests=4 * resources.sessions,
                max_inbox=256,
            )
            for stage, factory in WORKERS.items()
            if stage in stages
        }
        return PooledPipeline(engines=engines, pool=pool, workers=resources.workers)


FAMILY = ThreeStages()
"""Named by the entry point in pyproject.toml."""
