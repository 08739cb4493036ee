"""Engines whose every step is taken when a test says so: in any order, late, or never. What they say they mean.

Every turn has words and a sound of its own (`Account.tag`), so whatever comes out anywhere shows under which fence it
was made, whatever is written on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from duplex.connector.base import Connector, Handle
from duplex.connector.payload import (
    Completeness,
    EndOfTurn,
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
from duplex.engine.base import Sink, StageEvent, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.errors import ConnectorFull, StageError, StaleFence, UnknownHandle
from duplex.session.fence import Fence
from tests.kernel.account import Account

WINDOW = 512


@dataclass(slots=True)
class Mood:
    """What engines are about to make.

    Attributes:
        pieces: of an answer's text; `samples`: of the audio of each.
        sure: that a turn is complete.
        second_thoughts: whether the final words of a turn are others than those in its pause; `deaf`: whether there
            are any.
        slow: whether what is said arrives a round later.
    """

    pieces: int = 3
    samples: int = 3000
    sure: float = 0.99
    second_thoughts: bool = False
    deaf: bool = False
    slow: bool = False


@dataclass(slots=True)
class Job:
    """One request at work. `todo`: what it has made and not said; `final`: whether its input is complete."""

    fence: Fence
    inbox: deque[tuple[Handle | None, bool]] = field(default_factory=deque)
    todo: deque[Payload] = field(default_factory=deque)
    final: bool = False
    heard: int = 0
    said_all: bool = False


React = Callable[["Stage", Job, Payload | None], list[Payload]]
"""What a stage makes of one payload; None for the end of its input."""


class Stage:
    """One engine (`engine.base.Engine`). What it says is on its way until `deliver`, also when it is aborted meanwhile.

    Args:
        name: of the stage.
        react: what it makes of what.
    """

    def __init__(self, *, name: str, connector: Connector, account: Account, mood: Mood, react: React) -> None:
        self.name = name
        self.connector = connector
        self.account = account
        self.mood = mood
        self.jobs: dict[Fence, Job] = {}
        self.on_their_way: deque[StageEvent] = deque()
        self.late: deque[tuple[Fence, Payload]] = deque()
        self._react = react
        self._sink: Sink | None = None

    async def start(self, sink: Sink) -> None:
        self._sink = sink

    async def stop(self) -> None:
        self._sink = None

    def submit(self, request: StageRequest) -> None:
        self.account.may_reach(request.fence, f"{self.name} is asked")
        self.account.expect(request.fence not in self.jobs, "a fence names one request")
        self.jobs[request.fence] = Job(request.fence)

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        self.account.may_reach(fence, f"{self.name} is fed")
        if (job := self.jobs.get(fence)) is not None:
            job.inbox.append((handle, final))
        else:
            self._discard(handle)

    def abort(self, fence: Fence) -> None:
        job = self.jobs.pop(fence, None)
        if job is not None:
            self._empty(job)
            self.late.extend((fence, payload) for payload in list(job.todo)[:1])

    def _empty(self, job: Job) -> None:
        while job.inbox:
            self._discard(job.inbox.popleft()[0])

    def _discard(self, handle: Handle | None) -> None:
        if handle is not None:
            with suppress(UnknownHandle):
                self.connector.take(handle)

    # What a test lets happen --------------------------------------------------------------------

    @property
    def busy(self) -> list[Job]:
        """Those that have something to do, in the order of their requests."""
        return [job for job in self.jobs.values() if job.todo or job.inbox or job.final]

    def work(self, job: Job) -> None:
        """One step of a request: take a chunk, say one thing that was made of it, or finish."""
        if job.todo:
            self._say(job, job.todo.popleft())
        elif job.inbox:
            handle, job.final = job.inbox.popleft()
            try:
                payload = self.connector.take(handle) if handle is not None else None
            except UnknownHandle:
                self.account.expect(self.account.is_dead(job.fence), f"input of {self.name} is gone before it was read")
                del self.jobs[job.fence]
                return
            if payload is not None:
                self.took(job, payload)
                job.todo.extend(self._react(self, job, payload))
            if job.final:
                job.todo.extend(self._react(self, job, None))
        elif job.final:
            del self.jobs[job.fence]
            self.on_their_way.append(StageFinished(fence=job.fence, stage=self.name, output_tokens=1))

    def took(self, job: Job, payload: Payload) -> None:
        """A request has taken this in."""

    def said(self, job: Job, payload: Payload) -> None:
        """A request has said this."""
        self.account.makings.made(self.name, job.fence, payload)

    def _say(self, job: Job, payload: Payload) -> None:
        try:
            handle = self.connector.put(job.fence, payload)
        except StaleFence:
            self.account.expect(self.account.is_dead(job.fence), f"{self.name} cannot speak, and was not aborted")
            self._empty(job)
            del self.jobs[job.fence]
        except ConnectorFull as error:
            self.crash(job, str(error))
        else:
            self.said(job, payload)
            self.on_their_way.append(StageOutput(fence=job.fence, stage=self.name, handle=handle))

    def crash(self, job: Job, why: str = "broke") -> None:
        """A request fails, in the middle of whatever it is at."""
        self._empty(job)
        del self.jobs[job.fence]
        error = StageError(why, stage=self.name)
        self.on_their_way.append(StageFailed(fence=job.fence, stage=self.name, error=error))

    def deliver(self, count: int) -> None:
        """Let so much of what was said arrive at the loop."""
        for _ in range(min(count, len(self.on_their_way))):
            assert self._sink is not None
            self._sink(self.on_their_way.popleft())

    def speak_too_late(self) -> None:
        """What was being made when its request was aborted is made by now; an engine then takes it back itself."""
        while self.late:
            fence, payload = self.late.popleft()
            with suppress(StaleFence, ConnectorFull):
                self._discard(self.connector.put(fence, payload))


def listens(stage: Stage, job: Job, payload: Payload | None) -> list[Payload]:
    """Speech is whatever is not zero."""
    if not isinstance(payload, Pcm):
        return []
    windows = payload.samples.reshape(-1, WINDOW).any(axis=1)
    return [Speech(start=payload.start, window=WINDOW, probabilities=tuple(0.95 if loud else 0.01 for loud in windows))]


def judges(stage: Stage, job: Job, payload: Payload | None) -> list[Payload]:
    asked = isinstance(payload, Mark) and payload.mark is MarkKind.ASK
    return [EndOfTurn(end=payload.end, probability=stage.mood.sure)] if asked else []  # type: ignore[union-attr]


def recognises(stage: Stage, job: Job, payload: Payload | None) -> list[Payload]:
    """In a pause the words so far; at the end the final ones, which may be others, or none."""
    match payload:
        case Pcm(start=start, samples=samples):
            job.heard = start + len(samples)
            return []
        case Mark(mark=MarkKind.PAUSE, end=end):
            return [Transcript(text=stage.account.makings.words_said(job.fence), end=end, final=False)]
        case _ if job.said_all:
            return []
        case _:
            job.said_all = True
            text = stage.account.makings.words_said(job.fence, others=stage.mood.second_thoughts)
            return [Transcript(text="" if stage.mood.deaf else text, end=job.heard, final=True)]


def thinks(stage: Stage, job: Job, payload: Payload | None) -> list[Payload]:
    if isinstance(payload, Prompt) and not payload.complete:
        return [Completeness(probability=0.9)]
    if not isinstance(payload, Prompt):
        return []
    words = [stage.account.makings.words_thought(job.fence, number) for number in range(stage.mood.pieces)]
    starts = [sum(map(len, words[:number])) for number in range(len(words))]
    return [Text(text=text, start=start) for start, text in zip(starts, words, strict=True)]


def talks(stage: Stage, job: Job, payload: Payload | None) -> list[Payload]:
    return [payload] if isinstance(payload, Text) else []


def voices(stage: Stage, job: Job, payload: Payload | None) -> list[Payload]:
    if not isinstance(payload, Text):
        return []
    samples = np.full(stage.mood.samples, stage.account.makings.tag(job.fence), np.int16)
    return [Voiced(samples=samples, rate_hz=24_000, text_end=payload.start + len(payload.text))]


REACTIONS: dict[str, React] = {
    "listen": listens,
    "endpoint": judges,
    "hear": recognises,
    "think": thinks,
    "talk": talks,
    "code2wav": voices,
}
