"""What the session tells, as the wire's events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from duplex.errors import ClientError
from duplex.protocol.openai_realtime import server
from duplex.protocol.openai_realtime.response import Response
from duplex.protocol.openai_realtime.server import ServerEvent
from duplex.session import notices
from duplex.session.notices import Notice
from duplex.session.port import Audio
from duplex.transport.openai_realtime import closing, items
from duplex.transport.openai_realtime.answer import Answer, response_object
from duplex.transport.openai_realtime.configuration import voice_in_use
from duplex.transport.openai_realtime.negotiation import Negotiation


class Outgoing:
    """Translates one connection's output; keeps what has been told of each answer under way.

    Args:
        negotiation: shared with the input, which puts the client's patches to the session.
    """

    def __init__(self, *, negotiation: Negotiation) -> None:
        self._negotiation = negotiation
        self._conversation_id = ""
        self._answers: dict[str, Answer] = {}
        self._ids = (f"event_{number}" for number in itertools.count(1))

    def error(self, error: ClientError) -> server.ErrorEvent:
        """See `OpenAIDialect.error`."""
        details = server.ErrorDetails(
            message=error.message, type=error.kind, code=error.code, param=error.param, event_id=error.event_id
        )
        return server.ErrorEvent(event_id=next(self._ids), error=details)

    def encode(self, told: Notice | Audio) -> list[ServerEvent]:
        """See `OpenAIDialect.encode`."""
        match told:
            case Audio():
                return list(self._audio(told))
            case notices.Queued(position=position, eta_s=eta_s):
                return [server.QueueUpdated(event_id=next(self._ids), position=position, eta_s=eta_s)]
            case notices.Opened() | notices.Configured() | notices.Refused() | notices.Closed():
                return list(self._of_session(told))
            case notices.ResponseCreated() | notices.ResponseItemAdded() | notices.ResponseText():
                return list(self._of_answer(told))
            case notices.ResponseDone():
                return list(self._answer_done(told))
            case (
                notices.SpeechStarted()
                | notices.SpeechStopped()
                | notices.AudioCommitted()
                | notices.AudioCleared()
                | notices.Transcribed()
                | notices.TranscriptionFailed()
            ):
                return list(self._of_input(told))
            case notices.Ending() | notices.Interrupted() | notices.Snapshot():
                return []  # The protocol has no words for the two, and no sessions that could need the third.
            case _:
                return list(self._of_conversation(told))

    def _audio(self, audio: Audio) -> Iterator[ServerEvent]:
        # Sound of an answer that is over, or was never announced, is nothing that the client could place.
        answer = self._answers.get(audio.response_id)
        if answer is not None and answer.item_id == audio.item_id:
            yield from answer.audio(audio)

    def _of_session(
        self, told: notices.Opened | notices.Configured | notices.Refused | notices.Closed
    ) -> Iterator[ServerEvent]:
        match told:
            case notices.Opened():
                self._conversation_id = told.conversation_id
                session = self._negotiation.open(told.session_id, told.settings)
                yield server.SessionCreated(event_id=next(self._ids), session=session)
                conversation = server.Conversation(id=told.conversation_id)
                yield server.ConversationCreated(event_id=next(self._ids), conversation=conversation)
            case notices.Configured():
                session = self._negotiation.agreed(told.settings)
                yield server.SessionUpdated(event_id=next(self._ids), session=session)
            case notices.Refused():
                error = told.error
                details = server.ErrorDetails(
                    message=error.message,
                    type=error.kind,
                    code=error.code,
                    param=error.param,
                    event_id=self._negotiation.refused(error),
                )
                yield server.ErrorEvent(event_id=next(self._ids), error=details)
            case notices.Closed():
                farewell = closing.details(told)
                if farewell is not None:
                    yield server.ErrorEvent(event_id=next(self._ids), error=farewell)

    def _of_answer(
        self, told: notices.ResponseCreated | notices.ResponseItemAdded | notices.ResponseText
    ) -> Iterator[ServerEvent]:
        if isinstance(told, notices.ResponseCreated):
            info = told.response
            self._answers[info.response_id] = Answer(response=info, next_id=self._ids.__next__)
            yield server.ResponseCreated(event_id=next(self._ids), response=self._response(info))
            return
        answer = self._answers.get(told.response_id)
        if answer is None:
            return
        yield from answer.item_added(told) if isinstance(told, notices.ResponseItemAdded) else answer.text(told)

    def _answer_done(self, told: notices.ResponseDone) -> Iterator[ServerEvent]:
        info = told.response
        answer = self._answers.pop(info.response_id, None)
        if answer is not None:
            yield from answer.ended(info.item)
            yield server.ResponseDone(event_id=next(self._ids), response=self._response(info))

    def _response(self, info: notices.ResponseInfo) -> Response:
        voice = voice_in_use(self._negotiation.now.settings, self._negotiation.served)
        return response_object(info, conversation_id=self._conversation_id, voice=voice)

    def _of_input(
        self,
        told: notices.SpeechStarted
        | notices.SpeechStopped
        | notices.AudioCommitted
        | notices.AudioCleared
        | notices.Transcribed
        | notices.TranscriptionFailed,
    ) -> Iterator[ServerEvent]:
        match told:
            case notices.SpeechStarted(item_id=item_id, at_ms=at_ms):
                yield server.SpeechStarted(event_id=next(self._ids), item_id=item_id, audio_start_ms=at_ms)
            case notices.SpeechStopped(item_id=item_id, at_ms=at_ms):
                yield server.SpeechStopped(event_id=next(self._ids), item_id=item_id, audio_end_ms=at_ms)
            case notices.AudioCommitted(item_id=item_id, previous_item_id=previous):
                yield server.AudioCommitted(event_id=next(self._ids), item_id=item_id, previous_item_id=previous)
            case notices.AudioCleared():
                yield server.AudioCleared(event_id=next(self._ids))
            case notices.Transcribed() | notices.TranscriptionFailed():
                if self._negotiation.now.transcription:
                    yield from self._transcription(told)

    def _transcription(self, told: notices.Transcribed | notices.TranscriptionFailed) -> Iterator[ServerEvent]:
        item_id = told.item_id
        if isinstance(told, notices.TranscriptionFailed):
            error = server.TranscriptionError(message=told.message)
            yield server.TranscriptionFailed(event_id=next(self._ids), item_id=item_id, error=error)
            return
        if told.text:
            yield server.TranscriptionDelta(event_id=next(self._ids), item_id=item_id, delta=told.text)
        usage = server.DurationUsage(seconds=told.audio_ms / 1000)
        yield server.TranscriptionCompleted(
            event_id=next(self._ids), item_id=item_id, transcript=told.text, usage=usage
        )

    def _of_conversation(
        self,
        told: notices.ItemAdded
        | notices.ItemDone
        | notices.ItemRetrieved
        | notices.ItemDeleted
        | notices.ItemTruncated,
    ) -> Iterator[ServerEvent]:
        match told:
            case notices.ItemAdded() | notices.ItemDone():
                yield from self._item(told)
            case notices.ItemRetrieved(item=item):
                yield server.ItemRetrieved(event_id=next(self._ids), item=items.shown(item))
            case notices.ItemDeleted(item_id=item_id):
                yield server.ItemDeleted(event_id=next(self._ids), item_id=item_id)
            case notices.ItemTruncated():
                yield server.ItemTruncated(
                    event_id=next(self._ids),
                    item_id=told.item_id,
                    content_index=told.content_index,
                    audio_end_ms=told.audio_end_ms,
                )

    def _item(self, told: notices.ItemAdded | notices.ItemDone) -> Iterator[ServerEvent]:
        item_id = told.item.item_id
        answer = next((answer for answer in self._answers.values() if answer.item_id == item_id), None)
        if answer is not None and isinstance(told, notices.ItemDone):
            yield from answer.ended(told.item)
        kind = server.ItemAdded if isinstance(told, notices.ItemAdded) else server.ItemDone
        yield kind(event_id=next(self._ids), item=items.shown(told.item), previous_item_id=told.previous_item_id)
        if answer is not None and isinstance(told, notices.ItemAdded):
            yield from answer.part_opened()
