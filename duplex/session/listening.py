"""The input half of a session: from the microphone to items with the user's words."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.connector.payload import Completeness, EndOfTurn, Mark, MarkKind, Speech
from duplex.session.detector import Ask, End, Onset, Pause, Signal, TurnDetector, TurnState
from duplex.session.effects import Abort, Effect, Feed, Retain, Submit, Tell, Update
from duplex.session.events import AppendAudio
from duplex.session.fence import INPUT, Fence
from duplex.session.notices import SpeechStarted, SpeechStopped
from duplex.session.policy import DetectorPolicy
from duplex.session.settings import ServerVad, SessionLimits, TurnDetection
from duplex.session.stages import ENDPOINT, HEAR, HEARING, LISTEN, LISTENING

PREFIX_MS = 300
"""Audio kept from before an onset where the settings do not say it (OpenAI Realtime's own figure)."""

QUESTION_MS = 8_000
"""The newest audio of a turn that goes with the question whether it is complete."""

LAG_MS = 500
"""Input that may come after what was listened to, or after a question that has no answer yet. More would leave turns
behind that nobody can end in time any more: then the client has to wait."""

UNHEARD_MS = 30_000
"""Input of one turn that may wait to be recognised."""


@dataclass(slots=True, kw_only=True)
class Utterance:
    """Audio that is becoming an item.

    Attributes:
        fence: of its recognition, in a lane of its own: an interrupted answer leaves it alone.
        start: first sample; `fed`: one past the last sample that recognition has been given; `heard`: one past the
            last that it has reported on.
    """

    item_id: str
    fence: Fence
    start: int
    fed: int
    heard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The user's turn has ended and is an item now.

    Attributes:
        speech_end: position one past its last sample of speech (or of audio, committed by hand).
        detected: whether turn detection ended it, and not the client.
    """

    utterance: Utterance
    speech_end: int
    detected: bool


class Listening:
    """Follows the input of one session. Methods return effects.

    Attributes:
        position: samples received.
        utterance: the audio under way, or None.
        generation: of the connection that speaks; recognition that begins is of this one.
    """

    def __init__(self, *, fence: Fence, limits: SessionLimits, detection: TurnDetection | None) -> None:
        self.fence = fence._replace(lane=INPUT)
        self.generation = fence.generation
        self.position = 0
        self.utterance: Utterance | None = None
        self._limits = limits
        self._listened = 0  # one past the last sample that listening has reported on
        self._asked = 0  # one past the last sample that went with a question
        self._floor = 0  # nothing before this position may enter a new utterance, or begin one
        self._count = 0
        self._wanted = detection
        self._detection = detection
        self._detector = self._made(detection)

    def _made(self, detection: TurnDetection | None) -> TurnDetector | None:
        if detection is None:
            return None
        policy = DetectorPolicy.of(detection, max_turn_s=self._limits.max_turn_s)
        return TurnDetector(policy, hz=self._limits.input_hz)

    @property
    def detection(self) -> TurnDetection | None:
        """How the turn under way ends; a change takes effect with the next one."""
        return self._detection

    @property
    def behind(self) -> bool:
        """Whether so much input waits for the stages that the client has to wait for them: files come faster than
        real time."""
        if self.utterance is not None and self.ms(self.utterance.fed - self.utterance.heard) > UNHEARD_MS:
            return True
        if self._detector is None:
            return False
        asked = self._detector.asked
        listened = self._listened if asked is None else min(self._listened, asked)
        return self.ms(self.position - listened) > LAG_MS

    def hears(self, fence: Fence) -> bool:
        """Whether `fence` is that of the audio under way."""
        return self.utterance is not None and self.utterance.fence == fence

    def paused_at(self, fence: Fence) -> int | None:
        """Where the speech that `fence` recognises has paused; None where it goes on, or is over."""
        return self._detector.paused_at if self._detector is not None and self.hears(fence) else None

    @property
    def likely(self) -> bool:
        """Whether the user has paused and seems to have come to an end."""
        return self._detector is not None and self._detector.likely

    def ms(self, position: int) -> int:
        """A position in milliseconds."""
        return position * 1000 // self._limits.input_hz

    def open(self) -> list[Effect]:
        """Begin to listen."""
        return [Submit(fence=self.fence, stages=LISTENING)]

    def open_again(self) -> list[Effect]:
        """What listened is gone: another one begins with what comes next, and what came before is not listened to."""
        self.fence = self.fence.next()
        self._listened = self._asked = self.position
        return [*self.clear(), *self.open()]

    def configure(self, detection: TurnDetection | None) -> None:
        """Use another way to end turns: at once, or from the next turn on where one has been detected that goes on.

        Audio that was to be committed by hand belongs to the turn that is detected next, and the other way round.
        """
        self._wanted = detection
        if self._detector is None or self._detector.state is TurnState.QUIET:
            self._adopt()

    def _adopt(self) -> None:
        if self._wanted != self._detection:
            self._detection = self._wanted
            self._detector = self._made(self._wanted)
            self._listened = self.position  # Without a detector nothing was listened to, and nothing will be now.

    def append(self, event: AppendAudio) -> list[Effect]:
        """The microphone goes on."""
        start, self.position = self.position, self.position + len(event.pcm)
        effects: list[Effect] = [Retain(start=start, pcm=event.pcm)]
        if self._detector is not None:
            effects.append(Feed(fence=self.fence, stage=LISTEN, start=start, end=self.position))
        elif self.utterance is None and self.position > start:
            effects += self._begin(max(start, self._floor))
        return effects + self._feed(self.position)

    def _begin(self, start: int) -> list[Effect]:
        self._count += 1
        item_id = f"item_{self.fence.session_id.removeprefix('sess_')}_u{self._count}"
        fence = Fence(self.fence.session_id, self.generation, item_id, 0)
        self.utterance = Utterance(item_id=item_id, fence=fence, start=start, fed=start, heard=start)
        return [Submit(fence=fence, stages=HEARING)]

    def _feed(self, until: int) -> list[Effect]:
        utterance = self.utterance
        if utterance is None or utterance.fed >= until:
            return []
        start, utterance.fed = utterance.fed, until
        return [Feed(fence=utterance.fence, stage=HEAR, start=start, end=until)]

    def hear(self, report: Speech | EndOfTurn | Completeness) -> list[Signal]:
        """Take what a stage said of the input; returns the signals that are to be acted on, in order."""
        if isinstance(report, Speech):
            self._listened = max(self._listened, report.start + report.window * len(report.probabilities))
        if self._detector is None:
            return []
        match report:
            case Speech():
                return self._detector.hear(self._fresh(report))
            case EndOfTurn():
                return self._detector.answer(report)
            case Completeness():
                return self._detector.judge(report)

    def _fresh(self, report: Speech) -> Speech:
        """Without the windows that were cleared or committed while listening was still at them."""
        stale = min(max(0, -(-(self._floor - report.start) // report.window)), len(report.probabilities))
        start = report.start + stale * report.window
        frames = len(report.levels) // max(1, len(report.probabilities))
        return Speech(
            start=start,
            window=report.window,
            probabilities=report.probabilities[stale:],
            levels=report.levels[stale * frames :],
        )

    def heard(self, fence: Fence, end: int) -> None:
        """Recognition has come to this position."""
        if self.utterance is not None and self.utterance.fence == fence:
            self.utterance.heard = max(self.utterance.heard, end)

    def mark(self, signal: Pause | Ask) -> list[Effect]:
        """Tell a stage of a silence: recognition may decode now, or the turn may be complete."""
        match signal:
            case Pause(end=end) if self.utterance is not None:
                mark = Mark(mark=MarkKind.PAUSE, start=self.utterance.start, end=end)
                return [Update(fence=self.utterance.fence, stage=HEAR, payload=mark)]
            case Ask(start=start, end=end):
                mark = Mark(mark=MarkKind.ASK, start=start, end=end)
                # The audio comes with the question, and only what is new since the last one: most is never asked about.
                since = max(start, self._asked, end - QUESTION_MS * self._limits.input_hz // 1000)
                self._asked = max(self._asked, end)
                return [
                    *([Feed(fence=self.fence, stage=ENDPOINT, start=since, end=end)] if since < end else []),
                    Update(fence=self.fence, stage=ENDPOINT, payload=mark),
                ]
            case _:
                return []

    def onset(self, signal: Onset) -> list[Effect]:
        """Speech has begun: recognition follows it from a little before, if it is not under way already."""
        detection = self._detection
        prefix_ms = detection.prefix_padding_ms if isinstance(detection, ServerVad) else PREFIX_MS
        start = max(signal.at - prefix_ms * self._limits.input_hz // 1000, self._floor, 0)
        effects = self._begin(start) if self.utterance is None else []
        assert self.utterance is not None
        started = SpeechStarted(item_id=self.utterance.item_id, at_ms=self.ms(max(start, self.utterance.start)))
        return [Tell(notice=started), *effects, *self._feed(self.position)]

    def commit(self, signal: End | None) -> tuple[list[Effect], Committed | None]:
        """End the turn: by what turn detection has found, or by the client's word (None): then with all that it sent,
        whether listening has come to it yet or not.

        Returns what to do and the committed audio; None where there is none.
        """
        utterance = self.utterance
        if utterance is None:
            return [], None
        effects: list[Effect] = []
        detected = self._detector is not None
        if signal is not None:
            mark = Mark(mark=MarkKind.END, start=utterance.start, end=signal.end)
            effects.append(Update(fence=utterance.fence, stage=HEAR, payload=mark, final=True))
            stopped = SpeechStopped(item_id=utterance.item_id, at_ms=self.ms(signal.end))
            effects.append(Tell(notice=stopped))
        else:
            effects.append(Update(fence=utterance.fence, stage=HEAR, payload=None, final=True))
            if self._detector is not None and self._detector.state is not TurnState.QUIET:
                effects.append(Tell(notice=SpeechStopped(item_id=utterance.item_id, at_ms=self.ms(self.position))))
                self._detector.reset()
        end = signal.end if signal is not None else self.position
        self._forget(floor=end)
        return effects, Committed(utterance=utterance, speech_end=end, detected=detected)

    def clear(self) -> list[Effect]:
        """Forget the audio under way."""
        utterance = self.utterance
        if self._detector is not None:
            self._detector.reset()
        self._forget(floor=self.position)
        return [Abort(fence=utterance.fence)] if utterance is not None else []

    def _forget(self, *, floor: int) -> None:
        self.utterance = None
        self._floor = floor
        self._adopt()

    def close(self) -> list[Effect]:
        """Stop listening."""
        return [*self.clear(), Abort(fence=self.fence)]
