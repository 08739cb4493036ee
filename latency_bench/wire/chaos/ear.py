"""What one client is told, held against what was promised to it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from duplex.protocol.native import server
from duplex.protocol.native.media import SPEECH, Frame
from latency_bench.wire.chaos.plan import Moment
from latency_bench.wire.native import Message, number_of

KEPT = 16
"""Newest messages that a client of the native protocol may say it has not seen."""


@dataclass(slots=True, kw_only=True)
class Heard:
    """What all ears of a run have heard, and what of it must not be.

    Attributes:
        counts: by kind: answers, bytes of audio, interruptions.
        stale_bytes: audio of an answer that the client had been told is interrupted or over.
        breaches: one sentence for each promise that was not kept.
    """

    counts: Counter[str] = field(default_factory=Counter)
    stale_bytes: int = 0
    breaches: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Answer:
    """`over`: its end was told; `stopped`: the user's speech came first, or the word that it is interrupted; `late`:
    audio came after that, which is said once."""

    samples: int = 0
    text: str = ""
    over: bool = False
    stopped: bool = False
    late: bool = False


class Ear:
    """What both protocols have in common.

    Args:
        heard: where everything is written down.
        name: of the client, for sentences.

    Attributes:
        reached: how far the turn is, as far as the server has told.
        items: newest ids of items, for whoever wants to change one.
        refused: codes of errors that were told.
        doing: what the client is at, for sentences.
    """

    def __init__(self, *, heard: Heard, name: str) -> None:
        self.reached: set[Moment] = set()
        self.items: list[str] = []
        self.refused: list[str] = []
        self.doing = "arriving"
        self._heard = heard
        self._name = name
        self._answers: dict[str, _Answer] = {}

    @property
    def answering(self) -> bool:
        """Whether an answer was announced and has not ended."""
        return any(not answer.over for answer in self._answers.values())

    def breach(self, text: str) -> None:
        """A promise was not kept."""
        self._heard.breaches.append(f"{self._name}, {self.doing}: {text}")

    def _speech(self) -> None:
        self.reached.add(Moment.SPEAKING)
        for answer in self._answers.values():
            if not answer.over and not answer.stopped:
                self._heard.counts["interrupted"] += 1
                answer.stopped = True

    def _created(self, response_id: str) -> None:
        if response_id in self._answers:
            self.breach(f"{response_id} was announced twice")
        self._heard.counts["answers"] += 1
        self._answers[response_id] = _Answer()
        self.reached.add(Moment.THINKING)

    def _audio(self, response_id: str, nbytes: int) -> _Answer:
        answer = self._answers.get(response_id)
        if answer is None:
            self.breach(f"audio of {response_id or 'an answer'} that was not announced")
            answer = self._answers[response_id] = _Answer()
        if answer.over or answer.stopped:
            self._heard.stale_bytes += nbytes
            if not answer.late:
                self.breach(f"audio of {response_id} after its {'end' if answer.over else 'interruption'}")
            answer.late = True
        self._heard.counts["audio_bytes"] += nbytes
        answer.samples += nbytes // 2
        self.reached.add(Moment.LISTENING)
        return answer

    def _words(self, response_id: str, text: str) -> None:
        answer = self._answers.get(response_id)
        if answer is None or answer.over:
            self.breach(f"words of {response_id}, which {'was not announced' if answer is None else 'is over'}")
            return
        answer.text += text
        self.reached.add(Moment.TALKING)

    def _done(self, response_id: str, status: str) -> None:
        answer = self._answers.get(response_id)
        if answer is None or answer.over:
            self.breach(f"{response_id} ended, which {'was not announced' if answer is None else 'had ended'}")
            return
        answer.over = True
        self._heard.counts[f"answers {status}"] += 1
        if status == "failed":
            self.breach(f"{response_id} failed")
        self.reached.add(Moment.ANSWERED)


class RealtimeEar(Ear):
    """Of OpenAI's protocol: events as JSON."""

    def __init__(self, *, heard: Heard, name: str) -> None:
        super().__init__(heard=heard, name=name)
        self._ids: set[str] = set()

    def take(self, event: dict[str, Any]) -> None:
        """One event; its audio still in base64."""
        if event["event_id"] in self._ids:
            self.breach(f"event {event['event_id']} came twice")
        self._ids.add(event["event_id"])
        match event["type"]:
            case "input_audio_buffer.speech_started":
                self._speech()
            case "input_audio_buffer.speech_stopped" | "input_audio_buffer.committed":
                self.reached.add(Moment.HEARING)
            case "conversation.item.added":
                self.items = [*self.items[-7:], event["item"]["id"]]
            case "response.created":
                self._created(event["response"]["id"])
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                self._words(event["response_id"], event["delta"])
            case "response.output_audio.delta":
                self._audio(event["response_id"], len(event["delta"]) * 3 // 4 & ~1)
            case "response.output_audio_transcript.done" | "response.output_text.done":
                self._whole(event["response_id"], event.get("transcript", event.get("text")))
            case "response.done":
                self._done(event["response"]["id"], event["response"]["status"])
            case "error":
                self.refused.append(str(event["error"]["code"]))
                if event["error"]["type"] == "server_error" and event["error"]["code"] != "session_queue_timeout":
                    self.breach(f"a fault of the server: {event['error']['message']}")
            case _:
                pass

    def _whole(self, response_id: str, text: str | None) -> None:
        answer = self._answers.get(response_id)
        if answer is not None and not answer.stopped and text is not None and not answer.text.startswith(text):
            self.breach(f"the words of {response_id} are not those that came one by one")


class NativeEar(Ear):
    """Of the native protocol, over all connections of a session.

    Attributes:
        seen: the newest number. `closed`: why the session is over; empty while it is not.
    """

    def __init__(self, *, heard: Heard, name: str) -> None:
        super().__init__(heard=heard, name=name)
        self.seen = 0
        self.closed = ""
        self._epochs: dict[int, str] = {}
        self._silenced = 0
        self._resumed = False
        self._holes = 0
        self._before: dict[int, dict[str, _Answer]] = {}

    def resume(self, seen: int) -> None:
        """Another connection goes on after `seen`: what came after that comes again, but for what was interrupted."""
        state = self._before.get(seen + 1)
        if state is not None:
            stopped = {response_id for response_id, answer in self._answers.items() if answer.stopped}
            self._answers = state
            for response_id in stopped & state.keys():
                state[response_id].stopped = True
        self._before.clear()
        self.seen = seen
        self._resumed = True

    def take(self, message: Message) -> None:
        """One message."""
        number = number_of(message)
        if number:
            self._count(number, fresh=isinstance(message, server.Snapshot))
        match message:
            case Frame():
                self._frame(message)
            case server.Snapshot():
                self._snapshot(message)
            case server.SpeechStarted():
                self._speech()
            case server.SpeechStopped() | server.Committed():
                self.reached.add(Moment.HEARING)
            case server.ItemAdded(item=item):
                self.items = [*self.items[-7:], item.item_id]
            case server.ResponseCreated(response=response):
                self._epochs[response.epoch] = response.response_id
                self._created(response.response_id)
            case server.ResponseText(response_id=response_id, text=text):
                self._words(response_id, text)
            case server.Interrupted(response_id=response_id, epoch=epoch):
                self._interrupted(response_id, epoch)
            case server.ResponseDone(response=response):
                self._done(response.response_id, response.status)
            case server.Error(code=code):
                self.refused.append(code)
            case server.Closed(reason=reason):
                self._close(reason, message.message)
            case _:
                pass

    def _count(self, number: int, *, fresh: bool) -> None:
        if number <= self.seen:
            self.breach(f"number {number} after {self.seen}")
        elif number != self.seen + 1 and not fresh:
            if self._resumed:
                self._holes += 1
            else:
                self.breach(f"number {number} after {self.seen}: what is between is missing")
        self.seen = max(self.seen, number)
        self._before[number] = {response_id: replace(answer) for response_id, answer in self._answers.items()}
        self._before.pop(number - KEPT, None)

    def _frame(self, frame: Frame) -> None:
        if frame.kind != SPEECH:
            self.breach(f"media of kind {frame.kind}")
        if frame.epoch <= self._silenced:
            self._heard.stale_bytes += len(frame.payload)
            self.breach(f"audio of epoch {frame.epoch} after its interruption")
            return
        answer = self._audio(self._epochs.get(frame.epoch, ""), len(frame.payload))
        start = answer.samples - frame.samples
        if frame.timestamp != start and not self._resumed:
            self.breach(f"audio from sample {frame.timestamp} on, where {start} was the next")

    def _interrupted(self, response_id: str, epoch: int) -> None:
        self._heard.counts["interrupted, told"] += 1
        self._silenced = max(self._silenced, epoch)
        if (answer := self._answers.get(response_id)) is not None:
            answer.stopped = True

    def _snapshot(self, told: server.Snapshot) -> None:
        for answer in self._answers.values():  # What was missed told of their ends.
            answer.over = True
        self.items = [item.item_id for item in told.items[-8:]]
        if (response := told.response) is not None:
            self._epochs[response.epoch] = response.response_id
            self._answers.setdefault(response.response_id, _Answer()).over = False

    def _close(self, reason: str, message: str) -> None:
        if reason == "replaced":
            return
        self.closed = reason
        self._heard.counts["answers ended by the session's end"] += self.answering
        if self._holes and not self._silenced:
            self.breach(f"{self._holes} holes in what was sent again, and nothing was interrupted")
        if reason in ("error", "overloaded"):
            self.breach(f"the session was closed: {reason}: {message}")
