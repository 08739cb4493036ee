"""The user's turns: from the onset of speech to an item with its words."""

from __future__ import annotations

from dataclasses import replace

from duplex.connector.payload import Completeness, EndOfTurn, Speech, Transcript
from duplex.errors import ClientError
from duplex.session.answering import Answering
from duplex.session.conversation import Conversation
from duplex.session.detector import Ask, End, Onset, Pause, Resume
from duplex.session.effects import Abort, Effect, Note, Tell
from duplex.session.fence import Fence
from duplex.session.item import Item, Part
from duplex.session.listening import Committed, Listening
from duplex.session.notices import AudioCommitted, ItemAdded, ItemDone, Refused, Transcribed, TranscriptionFailed
from duplex.session.prompting import Prompting
from duplex.session.recognising import Recognising
from duplex.session.settings import Provisional, SessionLimits


class UserTurns:
    """Follows the user's turns of one session. Methods return effects.

    Args:
        limits: the server's bounds.
        listening: hears where they begin and end.
        recognising: those that are over and wait for their words.
        conversation: where they become items.
        prompting: has them answered.
        answering: the answers, which they interrupt.
    """

    def __init__(
        self,
        *,
        limits: SessionLimits,
        listening: Listening,
        recognising: Recognising,
        conversation: Conversation,
        prompting: Prompting,
        answering: Answering,
    ) -> None:
        self._limits = limits
        self._listening = listening
        self._recognising = recognising
        self._conversation = conversation
        self._prompting = prompting
        self._answering = answering

    # From the onset to the end ----------------------------------------------------------------

    def hear(self, heard: Speech | EndOfTurn | Completeness, now: float) -> list[Effect]:
        """A stage has something to say of the input."""
        effects: list[Effect] = []
        for signal in self._listening.hear(heard):
            match signal:
                case Onset():
                    effects += self._onset(signal, now)
                case Resume():
                    effects += self._prompting.fence_provisional(now)
                case Pause() if self._limits.provisional is Provisional.OFF:
                    pass
                case Pause() | Ask():
                    effects += self._listening.mark(signal)
                case End():
                    effects += self._end(signal, now)
        return [*effects, *self._prompting.answer_early(now)] if isinstance(heard, EndOfTurn) else effects

    def _onset(self, signal: Onset, now: float) -> list[Effect]:
        detection = self._listening.detection
        effects: list[Effect] = []
        if detection is not None and detection.interrupt_response:
            effects += self._answering.interrupt(now, "turn_detected")
        # The client hears of the speech first, and then what it did to the answer; the fence has moved before both.
        aborts = [effect for effect in effects if isinstance(effect, Abort)]
        rest = [effect for effect in effects if not isinstance(effect, Abort)]
        return [*aborts, *self._listening.onset(signal), *rest, *self._prompting.read_ahead("")]

    def _end(self, signal: End, now: float) -> list[Effect]:
        effects, committed = self._listening.commit(signal)
        return [*effects, *(self._committed(committed) if committed is not None else [])]

    def commit(self, event_id: str | None) -> list[Effect]:
        """The client says that the turn is over. Raises ClientError where there is none; nothing has changed."""
        effects, committed = self._listening.commit(None)
        if committed is None:
            message = "There is no audio to commit: append some first."
            raise ClientError(message, code="input_audio_buffer_commit_empty", event_id=event_id)
        return [*effects, *self._committed(committed)]

    def _committed(self, committed: Committed) -> list[Effect]:
        utterance = committed.utterance
        audio_ms = self._listening.ms(self._listening.position - utterance.start)
        item = Item(
            item_id=utterance.item_id,
            role="user",
            status="completed",
            parts=(Part(kind="audio", text=None, audio_ms=audio_ms),),
        )
        previous = self._conversation.insert(item)
        self._recognising.add(committed)
        effects: list[Effect] = [
            Tell(notice=AudioCommitted(item_id=item.item_id, previous_item_id=previous)),
            Tell(notice=ItemAdded(item=item, previous_item_id=previous)),
            Tell(notice=ItemDone(item=item, previous_item_id=previous)),
        ]
        return [*effects, *self._owed(committed)]

    def _owed(self, committed: Committed) -> list[Effect]:
        """The answer to a turn that is over, where it is to have one."""
        detection = self._listening.detection
        if not committed.detected or detection is None or not detection.create_response:
            return []
        if self._answering.announced:
            message = "The turn was not answered: a response was active, and interrupt_response is off."
            error = ClientError(message, code="conversation_already_has_active_response")
            return [Tell(notice=Refused(error=error))]
        # It may have been begun in the pause, or be owed since the turn before.
        effects = self._prompting.begin() if self._answering.active_id is None else []
        response_id = self._answering.live_id()
        silence = self._listening.position - committed.speech_end
        ago_s = silence / self._limits.input_hz
        return [
            *effects,
            Note(response_id=response_id, name="speech_end", ago_s=ago_s, fence=committed.utterance.fence),
            Note(response_id=response_id, name="turn_end"),
        ]

    # Its words --------------------------------------------------------------------------------

    def transcribed(self, fence: Fence, transcript: Transcript, now: float) -> list[Effect]:
        """Recognition has words: all of a turn that is over, or those of one that goes on."""
        self._listening.heard(fence, transcript.end)
        if not transcript.final:
            return self._prompting.so_far(fence, transcript)
        committed = self._recognising.take(fence)
        if committed is None:
            return []
        item_id = committed.utterance.item_id
        audio_ms = self._set_transcript(item_id, transcript.text)
        told = Tell(notice=Transcribed(item_id=item_id, text=transcript.text, audio_ms=audio_ms))
        unseen = self._answering.active_id is not None and not self._answering.announced
        if unseen and not self._words_to_answer(transcript):
            # A noise ended a "turn" without words: there is nothing to answer, and nobody was told of an answer.
            return [told, *self._answering.interrupt(now, "turn_detected")]
        return [told, *self._prompting.words_known(now)]

    def _words_to_answer(self, transcript: Transcript) -> bool:
        return bool(transcript.text.strip()) or self._conversation.awaits_transcript

    def _set_transcript(self, item_id: str, text: str) -> int:
        item = self._conversation.get(item_id)
        if item is None:
            return 0
        part = replace(item.parts[0], text=text)
        self._conversation.replace(replace(item, parts=(part,)))
        return part.audio_ms

    def unrecognised(self, fence: Fence, message: str, now: float) -> list[Effect]:
        """A turn that is over will have no words; nothing where none waits for them."""
        committed = self._recognising.take(fence)
        if committed is None:
            return []
        item_id = committed.utterance.item_id
        self._set_transcript(item_id, "")
        return [
            Tell(notice=TranscriptionFailed(item_id=item_id, message=message)),
            *self._prompting.words_known(now),
        ]

    def lost(self, why: str, now: float) -> list[Effect]:
        """The turn under way will have no words."""
        message = f"What was being said is lost, please say it again: {why}."
        error = ClientError(message, code="transcription_failed", kind="server_error")
        return [*self._prompting.fence_provisional(now), *self._listening.clear(), Tell(notice=Refused(error=error))]
