"""Drives a real session core as a server would, on a virtual clock, and checks each effect as it comes.

The checks are a second, independent account of what may happen: which requests are alive, what the listener has
heard, which responses are open. They do not look into the core.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from duplex.connector.base import Handle
from duplex.connector.payload import Completeness, EndOfTurn, Kind, Mark, MarkKind, Prompt, Speech, Text, Transcript
from duplex.errors import StageError
from duplex.session.core import Session
from duplex.session.effects import Abort, Count, Effect, Feed, Note, Play, Release, Retain, Submit, Tell, Update
from duplex.session.events import AppendAudio, Completed, Event, Failed, Signalled, Spoke
from duplex.session.fence import INPUT, MAIN, Fence
from duplex.session.notices import (
    Notice,
    Opened,
    ResponseCreated,
    ResponseDone,
    ResponseText,
)
from duplex.session.reading import AHEAD
from duplex.session.settings import SessionLimits, SessionSettings

N = TypeVar("N")

LIMITS = SessionLimits(max_output_tokens=50, max_items=12, max_chars=400, idle_s=300, lifetime_s=3600)
WINDOW = 512


@dataclass(slots=True)
class Listener:
    """What a listener with a perfect clock hears of one response."""

    sent: int = 0
    played: float = 0.0
    at_s: float = 0.0

    def hear(self, now: float) -> None:
        self.played = min(self.sent, self.played + (now - self.at_s) * LIMITS.output_hz)
        self.at_s = now


@dataclass(slots=True)
class Driver:
    """One session under test."""

    settings: SessionSettings = field(default_factory=SessionSettings)
    limits: SessionLimits = LIMITS
    acknowledged: bool = False
    now: float = 100.0
    core: Session = field(init=False)
    live: dict[Fence, tuple[str, ...]] = field(default_factory=dict)
    submitted: list[Fence] = field(default_factory=list)
    aborted: set[Fence] = field(default_factory=set)
    ended: set[Fence] = field(default_factory=set)
    prompts: dict[Fence, Prompt] = field(default_factory=dict)
    readings: dict[Fence, Prompt] = field(default_factory=dict)
    questions: list[Mark] = field(default_factory=list)
    marks: list[tuple[Fence, Mark]] = field(default_factory=list)
    fed: dict[tuple[Fence, str], int] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    played: list[Play] = field(default_factory=list)
    listeners: dict[str, Listener] = field(default_factory=dict)
    open_responses: set[str] = field(default_factory=set)
    done_responses: set[str] = field(default_factory=set)
    released: int = 0
    received: int = 0
    listened: int = 0
    keys: int = 0
    texts: dict[Fence, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.core = Session(
            session_id="sess_t",
            settings=self.settings,
            limits=self.limits,
            now=self.now,
            acknowledged=self.acknowledged,
        )
        self.check(self.core.open())

    # Time and events ------------------------------------------------------------------------

    def do(self, event: Event) -> list[Effect]:
        if isinstance(event, AppendAudio) and not self.core.closed:
            self.received += len(event.pcm)
        effects = self.core.receive(event, self.now)
        self.check(effects)
        return effects

    def pass_time(self, seconds: float) -> None:
        """Let time pass, waking the session whenever it wants to be woken."""
        until = self.now + seconds
        for _ in range(100_000):
            deadline = self.core.deadline(self.now)
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.check(self.core.wake(self.now))
            after = self.core.deadline(self.now)
            assert after is None or after > self.now, "a session that has been woken must not want it again at once"
        else:
            raise AssertionError("the session never stops waking")
        self.now = until

    # What the stages do ---------------------------------------------------------------------

    @property
    def main(self) -> Fence | None:
        """The live request of the conversation's lane."""
        return next((fence for fence in self.live if fence.lane == MAIN), None)

    @property
    def input(self) -> Fence:
        """Of the newest request that listens."""
        return [fence for fence in self.submitted if fence.lane == INPUT][-1]

    def hearings(self) -> list[Fence]:
        """Live recognitions, oldest first."""
        return [fence for fence, stages in self.live.items() if stages == ("hear",)]

    def microphone(self, probabilities: list[float]) -> None:
        """Audio arrives, and listening reports on it."""
        self.do(AppendAudio(pcm=np.ones(WINDOW * len(probabilities), np.int16)))
        self.listen(probabilities)

    def listen(self, probabilities: list[float]) -> None:
        """Listening reports on the next windows."""
        report = Speech(start=self.listened, window=WINDOW, probabilities=tuple(probabilities))
        self.listened += WINDOW * len(probabilities)
        self.do(Signalled(fence=self.input, payload=report))

    def speak(self, windows: int = 12) -> None:
        self.microphone([0.95] * windows)

    def silence(self, windows: int = 10) -> None:
        for _ in range(windows):
            self.microphone([0.01])
            self.answer(0.99)

    def answer(self, probability: float) -> None:
        """Answer the newest question about the end of the turn, if there is one."""
        if self.questions:
            mark = self.questions.pop()
            self.do(Signalled(fence=self.input, payload=EndOfTurn(end=mark.end, probability=probability)))

    def transcribe(self, fence: Fence, text: str) -> None:
        self.do(Signalled(fence=fence, payload=Transcript(text=text, end=0, final=True)))
        if fence in self.live:
            self.complete(fence)

    def recognise_pause(self, text: str) -> None:
        """Recognition has decoded up to the newest pause of what is being said, and the language model has read it."""
        if self.marks:
            self.read()
            fence, mark = self.marks[-1]
            self.do(Signalled(fence=fence, payload=Transcript(text=text, end=mark.end, final=False)))
            self.read()
            self.answer(0.96)

    @property
    def reading(self) -> Fence | None:
        """What the language model is reading ahead."""
        return next((fence for fence in self.live if fence.lane == AHEAD), None)

    def read(self, probability: float = 0.9) -> None:
        """The language model has read ahead, and judged the words."""
        if (fence := self.reading) is not None:
            self.do(Signalled(fence=fence, payload=Completeness(probability=probability)))
            self.complete(fence)

    def write(self, fence: Fence, text: str) -> None:
        """Words of a stage; those of one that has no prompt yet, or whose turn is over, must leave no trace."""
        start = len(self.texts.get(fence, ""))
        if fence in self.prompts and fence in self.live:
            self.texts[fence] = self.texts.get(fence, "") + text
        self.do(Signalled(fence=fence, payload=Text(text=text, start=start)))

    def make_audio(self, fence: Fence, samples: int, text_end: int | None = None) -> Handle:
        self.keys += 1
        end = len(self.texts.get(fence, "")) if text_end is None else text_end
        handle = Handle(fence=fence, kind=Kind.VOICED, key=self.keys, nbytes=2 * samples, samples=samples, text_end=end)
        self.do(Spoke(fence=fence, handle=handle))
        return handle

    def complete(self, fence: Fence, reason: str = "stop") -> None:
        if self.live.pop(fence, None) is not None:
            self.ended.add(fence)
        self.do(Completed(fence=fence, reason=reason, output_tokens=5))

    def fail(self, fence: Fence, error: StageError | None = None) -> None:
        if self.live.pop(fence, None) is not None:
            self.ended.add(fence)
        self.do(Failed(fence=fence, error=error or StageError("broke", stage="think")))

    # The independent account ----------------------------------------------------------------

    def check(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert not self.released, f"{effect} after the release"
            self.effects.append(effect)
            self.check_one(effect)

    def check_one(self, effect: Effect) -> None:
        match effect:
            case Retain(start=start, pcm=pcm):
                assert start + len(pcm) == self.received, "input positions must be without a gap"
            case Submit(fence=fence, stages=stages):
                assert fence not in self.submitted, "a fence names one request"
                earlier = [old.epoch for old in self.submitted if old.lane == fence.lane]
                assert all(fence.epoch > epoch for epoch in earlier), "an epoch went back"
                self.submitted.append(fence)
                self.live[fence] = stages
            case Feed(fence=fence, stage=stage, start=start, end=end):
                assert stage in self.live.get(fence, ()), "audio for a request that is not alive"
                assert start < end <= self.received
                if stage == "hear":
                    assert start == self.fed.get((fence, stage), start), "recognition must be fed without a gap"
                self.fed[fence, stage] = end
            case Update(fence=fence, stage=stage, payload=payload):
                assert stage in self.live.get(fence, ()), "input for a request that is not alive"
                self.check_update(fence, payload)
            case Abort(fence=fence):
                self.aborted.add(fence)
                self.live.pop(fence, None)
            case Play():
                self.check_play(effect)
            case Tell(notice=notice):
                self.check_notice(notice)
            case Count(what=what):
                self.counts[what] += 1
            case Note(response_id=response_id):
                assert response_id.startswith("resp_")
            case Release():
                assert not self.live, f"closed with requests alive: {self.live}"
                self.released += 1

    def check_update(self, fence: Fence, payload: Mark | Prompt | None) -> None:
        match payload:
            case Prompt(complete=False):
                assert fence.lane == AHEAD, "what is not complete is no turn"
                self.readings[fence] = payload
            case Prompt():
                assert self.reading is None, "what is read ahead is in the way of the prompt"
                assert fence not in self.prompts, "a request has one prompt"
                self.prompts[fence] = payload
            case Mark(mark=MarkKind.ASK):
                self.questions.append(payload)
            case Mark():
                self.marks.append((fence, payload))
            case None:
                pass

    def check_play(self, play: Play) -> None:
        assert play.fence == play.handle.fence, "audio must go out under its own fence"
        assert play.fence not in self.aborted, "a stale turn was heard"
        assert play.response_id in self.open_responses, "audio outside of its response"
        self.played.append(play)
        listener = self.listeners.setdefault(play.response_id, Listener(at_s=self.now))
        listener.hear(self.now)
        listener.sent += play.handle.samples
        ahead = listener.sent - listener.played
        allowed = max(self.limits.audio_ahead_s * self.limits.output_hz, play.handle.samples)
        assert ahead <= allowed + 2, f"{ahead} samples ahead of the listener"

    def check_notice(self, notice: Notice) -> None:
        if not self.notices:
            assert isinstance(notice, Opened)
        self.notices.append(notice)
        match notice:
            case ResponseCreated(response=response):
                assert not self.open_responses, "two responses at once"
                self.open_responses.add(response.response_id)
            case ResponseText(response_id=response_id):
                assert response_id in self.open_responses, "words outside of their response"
            case ResponseDone(response=response):
                assert response.response_id in self.open_responses, "done without having been created, or twice"
                assert response.status != "in_progress"
                self.open_responses.remove(response.response_id)
                self.done_responses.add(response.response_id)
            case _:
                pass

    # Looking ----------------------------------------------------------------------------------

    def told(self, kind: type[N]) -> list[N]:
        return [notice for notice in self.notices if isinstance(notice, kind)]
