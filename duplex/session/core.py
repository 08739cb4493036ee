"""The session, pure: `receive(event, now)` and `wake(now)` return effects, `deadline` says when to wake it.

No clock, socket, task or lock in here. A client's event that is refused changes nothing; a report under a fence that
is not live any more is dropped, whichever way it comes.
"""

from __future__ import annotations

from dataclasses import replace

from duplex.connector.payload import Completeness, EndOfTurn, Message, Speech, Text, Transcript
from duplex.errors import ClientError
from duplex.session.answering import Answering
from duplex.session.conversation import Conversation
from duplex.session.detector import Ask, End, Onset, Pause, Resume
from duplex.session.effects import Abort, Count, Effect, Note, Release, Tell
from duplex.session.events import (
    AppendAudio,
    Attached,
    CancelResponse,
    ClearAudio,
    ClientEvent,
    Close,
    CommitAudio,
    Completed,
    Configure,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Detached,
    Event,
    Failed,
    Played,
    RetrieveItem,
    Signalled,
    Spoke,
    StageReport,
    TruncateItem,
    Unreadable,
)
from duplex.session.fence import INPUT, Fence
from duplex.session.history import History
from duplex.session.item import Item, Part
from duplex.session.lifetime import Ended, Lifetime, Warned
from duplex.session.listening import Committed, Listening
from duplex.session.notices import (
    AudioCleared,
    AudioCommitted,
    Closed,
    Configured,
    Ending,
    ItemAdded,
    ItemDone,
    Opened,
    Refused,
    Snapshot,
    Transcribed,
    TranscriptionFailed,
)
from duplex.session.reading import AHEAD, ReadAhead, calibrated, certain
from duplex.session.settings import Provisional, ResponseOptions, SessionLimits, SessionSettings
from duplex.session.window import Window

UNRECOGNISED = 3
"""Turns that may wait to be recognised before the client has to wait."""

CLOSING = {
    "client": "The client closed the session.",
    "disconnected": "The connection to the client was lost.",
    "replaced": "Another connection has taken the session over.",
    "idle": "Nothing was received for too long; open a new session to go on.",
    "expired": "The session has reached its longest lifetime; open a new one to go on.",
    "overloaded": "The session's mailbox overflowed; send less at once.",
    "slow_reader": "The client reads too slowly for the audio that it is sent.",
    "shutdown": "The server is shutting down.",
    "state_full": "The server's memory for sessions is spent.",
    "failed": "The stage that listens has failed.",
    "error": "The session failed inside the server.",
}
"""What is said to a client for each reason of `Close`."""


class Session:
    """One conversation from open to close.

    Args:
        session_id: unique in this server, `sess_` in front.
        generation: of the session's lease.
        settings: where the session starts.
        limits: the server's bounds.
        now: seconds on the caller's clock, which every method takes.
        acknowledged: whether the client says what it has played.
    """

    def __init__(
        self,
        *,
        session_id: str,
        settings: SessionSettings,
        limits: SessionLimits,
        now: float,
        generation: int = 0,
        acknowledged: bool = False,
    ) -> None:
        fence = Fence(session_id, generation, INPUT, 0)
        self.session_id = session_id
        self.settings = settings
        self.closed = False
        window = Window(context_tokens=limits.context_tokens, answer_tokens=limits.max_output_tokens)
        self.conversation = Conversation(max_items=limits.max_items, max_chars=limits.max_chars, window=window)
        self.conversation.configure(settings)
        self.listening = Listening(fence=fence, limits=limits, detection=settings.turn_detection)
        self.answering = Answering(
            fence=fence, limits=limits, conversation=self.conversation, acknowledged=acknowledged
        )
        self.history = History(session_id=session_id, conversation=self.conversation, answering=self.answering)
        self.reading = ReadAhead(fence=fence)
        self._limits = limits
        self._lifetime = Lifetime(idle_s=limits.idle_s, lifetime_s=limits.lifetime_s, notice_s=limits.notice_s, now=now)
        self._recognising: dict[Fence, Committed] = {}
        self._said: Transcript | None = None  # up to the newest pause, while it is being read

    def open(self) -> list[Effect]:
        """The first effects."""
        opened = Opened(session_id=self.session_id, conversation_id=self._conversation_id, settings=self.settings)
        return [Tell(notice=opened), *self.listening.open()]

    @property
    def _conversation_id(self) -> str:
        return "conv_" + self.session_id.removeprefix("sess_")

    def snapshot(self) -> Snapshot:
        """All that a client can know of the session now."""
        utterance = self.listening.utterance
        response = self.answering.shown()
        items = self.conversation.items
        if response is not None and response.item is not None:
            items = tuple(response.item if item.item_id == response.item.item_id else item for item in items)
        return Snapshot(
            session_id=self.session_id,
            conversation_id=self._conversation_id,
            settings=self.settings,
            items=items,
            response=response,
            speaking=utterance.item_id if utterance is not None else None,
        )

    def deadline(self, now: float) -> float | None:
        """When `wake` should be called next; None once closed."""
        if self.closed:
            return None
        audio = self.answering.deadline(now)
        return self._lifetime.deadline if audio is None else min(self._lifetime.deadline, audio)

    @property
    def behind(self) -> bool:
        """Whether the client has to wait until the stages have done more of what it has sent."""
        return self.listening.behind or len(self._recognising) > UNRECOGNISED

    def wake(self, now: float) -> list[Effect]:
        """Time has passed."""
        if self.closed:
            return []
        effects = self._not_idle(self.answering.wake(now), now)
        for due in self._lifetime.wake(now):
            match due:
                case Warned(reason=reason, in_s=in_s):
                    effects.append(Tell(notice=Ending(reason=reason, in_s=in_s)))
                case Ended(reason=reason):
                    return [*effects, *self._close(reason)]
        return effects

    def _not_idle(self, effects: list[Effect], now: float) -> list[Effect]:
        """A long answer is no idleness, however long its listener says nothing."""
        if effects:
            self._lifetime.touch(now)
        return effects

    def receive(self, event: Event, now: float) -> list[Effect]:
        """Something has happened. After the end nothing happens any more."""
        if self.closed:
            return []
        match event:
            case Signalled() | Spoke() | Completed() | Failed():
                return self._not_idle(self._report(event, now), now)
            case Attached(generation=generation):
                self._lifetime.touch(now)
                self.listening.generation = generation
                return self.answering.go_on(generation, now)
            case Detached():
                self.answering.halt(now)
                return []
            case _:
                self._lifetime.touch(now)
                try:
                    return self._client(event, now)
                except ClientError as error:
                    return [Tell(notice=Refused(error=error))]

    # What the client wants ------------------------------------------------------------------

    def _client(self, event: ClientEvent, now: float) -> list[Effect]:
        match event:
            case AppendAudio():
                return self.listening.append(event)
            case CommitAudio(event_id=event_id):
                return self._commit_by_hand(event_id, now)
            case ClearAudio():
                return [*self._fence_provisional(now), *self.listening.clear(), Tell(notice=AudioCleared())]
            case Configure(settings=settings):
                self.settings = settings
                self.listening.configure(settings.turn_detection)
                self.conversation.configure(settings)
                return [Tell(notice=Configured(settings=settings))]
            case CreateItem():
                return self.history.create(event)
            case RetrieveItem():
                return self.history.retrieve(event)
            case DeleteItem():
                return [*self.history.delete(event), *self._prompt_if_ready()]
            case TruncateItem():
                return self.history.truncate(event)
            case CreateResponse(options=options, event_id=event_id):
                return self._create_response(options, event_id, now)
            case CancelResponse():
                return self._cancel_response(event, now)
            case Played():
                return self.history.played(event, now)
            case Unreadable(error=error):
                raise error
            case Close(reason=reason):
                return self._close(reason)

    def _create_response(self, options: ResponseOptions, event_id: str | None, now: float) -> list[Effect]:
        fenced = self._fence_provisional(now) if self.listening.utterance is not None else []
        active = self.answering.active_id
        if active is not None:
            message = f"The response {active!r} is active; wait for response.done, or cancel it first."
            raise ClientError(message, code="conversation_already_has_active_response", event_id=event_id)
        effects = self.answering.create(self.settings, options, announce=True)
        return [*fenced, *effects, *self._prompt_if_ready()]

    def _cancel_response(self, event: CancelResponse, now: float) -> list[Effect]:
        active = self.answering.active_id if self.answering.announced else None
        if active is None or event.response_id not in (None, active):
            message = "There is no active response to cancel."
            raise ClientError(message, code="response_cancel_not_active", event_id=event.event_id)
        return self.answering.interrupt(now, "client_cancelled")

    # The user's turn ------------------------------------------------------------------------

    def _commit_by_hand(self, event_id: str | None, now: float) -> list[Effect]:
        effects, committed = self.listening.commit(None)
        if committed is None:
            message = "There is no audio to commit: append some first."
            raise ClientError(message, code="input_audio_buffer_commit_empty", event_id=event_id)
        return [*effects, *self._committed(committed, now)]

    def _onset(self, signal: Onset, now: float) -> list[Effect]:
        detection = self.listening.detection
        effects: list[Effect] = []
        if detection is not None and detection.interrupt_response:
            effects += self.answering.interrupt(now, "turn_detected")
        # The client hears of the speech first, and then what it did to the answer; the fence has moved before both.
        aborts = [effect for effect in effects if isinstance(effect, Abort)]
        rest = [effect for effect in effects if not isinstance(effect, Abort)]
        return [*aborts, *self.listening.onset(signal), *rest, *self._read_ahead("")]

    def _end(self, signal: End, now: float) -> list[Effect]:
        effects, committed = self.listening.commit(signal)
        return [*effects, *(self._committed(committed, now) if committed is not None else [])]

    def _committed(self, committed: Committed, now: float) -> list[Effect]:
        utterance = committed.utterance
        audio_ms = self.listening.ms(self.listening.position - utterance.start)
        item = Item(
            item_id=utterance.item_id,
            role="user",
            status="completed",
            parts=(Part(kind="audio", text=None, audio_ms=audio_ms),),
        )
        previous = self.conversation.insert(item)
        self._recognising[utterance.fence] = committed
        effects: list[Effect] = [
            Tell(notice=AudioCommitted(item_id=item.item_id, previous_item_id=previous)),
            Tell(notice=ItemAdded(item=item, previous_item_id=previous)),
            Tell(notice=ItemDone(item=item, previous_item_id=previous)),
        ]
        detection = self.listening.detection
        if not committed.detected or detection is None or not detection.create_response:
            return effects
        if self.answering.announced:
            message = "The turn was not answered: a response was active, and interrupt_response is off."
            error = ClientError(message, code="conversation_already_has_active_response")
            return [*effects, Tell(notice=Refused(error=error))]
        if self.answering.active_id is None:  # It may have been begun in the pause, or be owed since the turn before.
            effects += self.answering.create(self.settings, ResponseOptions(), announce=False)
        response_id = self.answering.live_id()
        silence = self.listening.position - committed.speech_end
        ago_s = silence / self._limits.input_hz
        return [
            *effects,
            Note(response_id=response_id, name="speech_end", ago_s=ago_s, fence=utterance.fence),
            Note(response_id=response_id, name="turn_end"),
        ]

    # What the stages report -----------------------------------------------------------------

    def _report(self, report: StageReport, now: float) -> list[Effect]:
        match report:
            case Signalled():
                return self._signalled(report, now)
            case Spoke(fence=fence, handle=handle):
                return self.answering.spoke(fence, handle, now)
            case Completed(fence=fence) if fence == self.listening.fence:
                return self._close("failed")
            case Completed(fence=fence) | Failed(fence=fence) if fence.lane == AHEAD:
                return self._read(fence, now)
            case Completed(fence=fence) if fence in self._recognising:
                return self._unrecognised(fence, "Recognition ended without a transcript.", now)
            case Completed(fence=fence) if self.listening.hears(fence):
                return self._lost("recognition ended before the turn did", now)
            case Completed():
                return self.answering.completed(report, now)
            case Failed():
                return self._failed(report, now)

    def _signalled(self, report: Signalled, now: float) -> list[Effect]:
        fence, payload = report.fence, report.payload
        match payload:
            case Speech() | EndOfTurn():
                return self._listened(payload, now) if fence == self.listening.fence else []
            case Transcript():
                self.listening.heard(fence, payload.end)
                return self._transcribed(fence, payload, now) if payload.final else self._so_far(fence, payload)
            case Completeness():
                whole = self._said is not None and self.reading.words(fence) == self._said.text
                first = not any(item.text for item in self.conversation.items)
                return self._listened(calibrated(payload, first=first), now) if whole else []
            case Text(text=text):
                return self.answering.wrote(fence, text)

    def _listened(self, heard: Speech | EndOfTurn | Completeness, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for signal in self.listening.hear(heard):
            match signal:
                case Onset():
                    effects += self._onset(signal, now)
                case Resume():
                    effects += self._fence_provisional(now)
                case Pause() if self._limits.provisional is Provisional.OFF:
                    pass
                case Pause() | Ask():
                    effects += self.listening.mark(signal)
                case End():
                    effects += self._end(signal, now)
        return effects

    def _transcribed(self, fence: Fence, transcript: Transcript, now: float) -> list[Effect]:
        committed = self._recognising.pop(fence, None)
        if committed is None:
            return []
        item_id = committed.utterance.item_id
        audio_ms = self._set_transcript(item_id, transcript.text)
        told = Transcribed(item_id=item_id, text=transcript.text, audio_ms=audio_ms)
        effects: list[Effect] = [Tell(notice=told)]
        unseen = self.answering.active_id is not None and not self.answering.announced
        if unseen and not self._words_to_answer(transcript):
            # A noise ended a "turn" without words: there is nothing to answer, and nobody was told of an answer.
            return [*effects, *self.answering.interrupt(now, "turn_detected")]
        return [*effects, *self._words_known(now)]

    def _words_known(self, now: float) -> list[Effect]:
        return self._confirm(now) if self.answering.provisional else self._prompt_if_ready()

    @property
    def _answers_early(self) -> bool:
        detection = self.listening.detection
        answered = detection is not None and detection.create_response
        return answered and self._limits.provisional is Provisional.ANSWER

    def _read_ahead(self, words: str) -> list[Effect]:
        """The user is speaking, and these are the words so far: so much of the prompt can be read already."""
        idle = self.answering.active_id is None and not self.conversation.awaits_transcript
        if not idle or not self._answers_early:
            return []
        return self.reading.read(
            self.conversation.messages(self.settings.instructions),
            words,
            generation=self.listening.generation,
            max_tokens=self.answering.most_tokens(self.settings, ResponseOptions()),
        )

    def _so_far(self, fence: Fence, transcript: Transcript) -> list[Effect]:
        """This is what was said until now. Where the user has paused it may be all, and is judged and then answered."""
        if not self.listening.hears(fence) or not self._answers_early or not transcript.text.strip():
            return []
        if self.listening.paused_at(fence) != transcript.end:
            return self._read_ahead(certain(transcript.text))
        self._said = transcript
        return self._read_ahead(transcript.text)

    def _read(self, fence: Fence, now: float) -> list[Effect]:
        """The language model has read so far."""
        words, said = self.reading.words(fence), self._said
        effects = self.reading.ended(fence)
        if said is None or words != said.text:
            return effects
        self._said = None
        return [*effects, *self._paused(said, now)]

    def _paused(self, transcript: Transcript, now: float) -> list[Effect]:
        """Begin to answer behind a shut gate."""
        utterance = self.listening.utterance
        if utterance is None or self.listening.paused_at(utterance.fence) != transcript.end:
            return []
        taken = self.answering.active_id is not None and not self.answering.provisional
        if taken or self.conversation.awaits_transcript:
            return []
        said = Message(role="user", text=transcript.text)
        messages = (*self.conversation.messages(self.settings.instructions), said)
        if self.answering.answers(messages, self.settings):
            return []
        return [
            *self._fence_provisional(now),
            Count(what="provisional_turns"),
            *self.reading.stop(),
            *self.answering.create(self.settings, ResponseOptions(), announce=False),
            *self.answering.prompt(messages, announce=False),
        ]

    def _fence_provisional(self, now: float) -> list[Effect]:
        """The turn goes on, or is gone: what was begun to answer it was never there."""
        if not self.answering.provisional:
            return []
        return [Count(what="provisional_turns_fenced"), *self.answering.interrupt(now, "turn_detected")]

    def _confirm(self, now: float) -> list[Effect]:
        """The turn is over and its words are final: open the gate, or begin again where they are other words."""
        messages = self.conversation.messages(self.settings.instructions)
        if self.conversation.awaits_transcript:
            return []
        if self.answering.answers(messages, self.settings):
            return [Count(what="provisional_turns_confirmed"), *self.answering.confirm(now)]
        return [
            *self._fence_provisional(now),
            *self.answering.create(self.settings, ResponseOptions(), announce=False),
            *self._prompt_if_ready(),
        ]

    def _words_to_answer(self, transcript: Transcript) -> bool:
        return bool(transcript.text.strip()) or self.conversation.awaits_transcript

    def _set_transcript(self, item_id: str, text: str) -> int:
        item = self.conversation.get(item_id)
        if item is None:
            return 0
        part = replace(item.parts[0], text=text)
        self.conversation.replace(replace(item, parts=(part,)))
        return part.audio_ms

    def _prompt_if_ready(self) -> list[Effect]:
        """Give a waiting answer its prompt, once all that was said is recognised."""
        if not self.answering.waiting or self.conversation.awaits_transcript:
            return []
        messages = self.conversation.messages(self.answering.instructions)
        return [*self.reading.stop(), *self.answering.prompt(messages, announce=True)]

    def _failed(self, report: Failed, now: float) -> list[Effect]:
        if report.fence == self.listening.fence:
            return self._close("failed")
        if report.fence in self._recognising:
            return self._unrecognised(report.fence, str(report.error), now)
        if self.listening.hears(report.fence):
            return self._lost(str(report.error), now)
        if self.answering.active_id is not None and report.fence == self.answering.fence:
            return self._answer_failed(report, now)
        return []

    def _answer_failed(self, report: Failed, now: float) -> list[Effect]:
        owed = self.answering.provisional and self.listening.utterance is None
        effects = self.answering.interrupt(now, "failed", error=str(report.error))
        if not owed:
            return effects
        # It had been begun too early, and failed unseen: the turn is over by now, and is answered all the same.
        return [*effects, *self.answering.create(self.settings, ResponseOptions(), announce=False)]

    def _lost(self, why: str, now: float) -> list[Effect]:
        message = f"What was being said is lost, please say it again: {why}."
        error = ClientError(message, code="transcription_failed", kind="server_error")
        return [*self._fence_provisional(now), *self.listening.clear(), Tell(notice=Refused(error=error))]

    def _unrecognised(self, fence: Fence, message: str, now: float) -> list[Effect]:
        item_id = self._recognising.pop(fence).utterance.item_id
        self._set_transcript(item_id, "")
        return [Tell(notice=TranscriptionFailed(item_id=item_id, message=message)), *self._words_known(now)]

    def _close(self, reason: str) -> list[Effect]:
        self.closed = True
        effects: list[Effect] = [
            *self.listening.close(),
            *self.reading.stop(),
            *(Abort(fence=fence) for fence in self._recognising),
        ]
        if self.answering.active_id is not None:
            effects.append(Abort(fence=self.answering.fence))
        self._recognising.clear()
        message = CLOSING.get(reason, reason)
        return [
            *effects,
            Tell(notice=Closed(reason=reason, message=message)),
            Release(session_id=self.session_id, reason=reason),
        ]
