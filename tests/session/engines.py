"""Engines that do at once what their test says; everything around them is real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from duplex.connector.base import Connector, Handle
from duplex.connector.payload import (
    Completeness,
    Mark,
    MarkKind,
    Payload,
    Pcm,
    Prompt,
    Speech,
    Text,
    Transcript,
    Voiced,
)
from duplex.engine.base import Sink, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.errors import ConnectorError, StageError
from duplex.session.fence import Fence

Say = Callable[[Payload], None]


@dataclass
class ScriptedEngine:
    """Answers each chunk by `react(payload, say)`; finishes when its input ends."""

    stage: str
    connector: Connector
    react: Callable[[Payload, Say], None]
    live: set[Fence] = field(default_factory=set)
    sink: Sink | None = None
    started: bool = False

    async def start(self, sink: Sink) -> None:
        self.sink = sink
        self.started = True

    async def stop(self) -> None:
        self.live.clear()
        self.started = False

    def submit(self, request: StageRequest) -> None:
        self.live.add(request.fence)

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        assert self.sink is not None
        if fence not in self.live:
            return
        sink = self.sink

        def say(payload: Payload) -> None:
            sink(StageOutput(fence=fence, stage=self.stage, handle=self.connector.put(fence, payload)))

        try:
            if handle is not None:
                self.react(self.connector.take(handle), say)
        except ConnectorError:
            return
        except StageError as error:
            self.live.discard(fence)
            sink(StageFailed(fence=fence, stage=self.stage, error=error))
            return
        if final:
            self.live.discard(fence)
            sink(StageFinished(fence=fence, stage=self.stage))

    def abort(self, fence: Fence) -> None:
        self.live.discard(fence)


def hears_loudness(payload: Payload, say: Say) -> None:
    """Speech is whatever is not zero; a chunk is one window."""
    assert isinstance(payload, Pcm)
    loud = float(np.abs(payload.samples).max(initial=0) > 0)
    say(Speech(start=payload.start, window=len(payload.samples), probabilities=(loud,)))


def recognises(payload: Payload, say: Say) -> None:
    if isinstance(payload, Mark) and payload.mark is MarkKind.END:
        say(Transcript(text="What time is it?", end=payload.end, final=True))


def thinks(payload: Payload, say: Say) -> None:
    if isinstance(payload, Prompt) and not payload.complete:
        say(Completeness(probability=0.9))
        return
    for start, text in ((0, "It is"), (5, " late.")):
        say(Text(text=text, start=start))


def talks(payload: Payload, say: Say) -> None:
    assert isinstance(payload, Text)
    say(payload)


def voices(chunks: int, samples: int) -> Callable[[Payload, Say], None]:
    """`chunks` of audio for each piece of text."""

    def react(payload: Payload, say: Say) -> None:
        assert isinstance(payload, Text)
        for _ in range(chunks):
            audio = np.full(samples, 1000, np.int16)
            say(Voiced(samples=audio, rate_hz=24_000, text_end=payload.start + len(payload.text)))

    return react


def ignores(payload: Payload, say: Say) -> None:
    """Takes its input and says nothing."""
