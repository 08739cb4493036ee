"""What a server of the native protocol says, as a conversation takes it. Pure."""

from __future__ import annotations

import msgspec

from duplex.client.conversation import Conversation
from duplex.client.inbox import Event, Speech
from duplex.client.playout import Dropped
from duplex.protocol.native import server
from duplex.protocol.native.item import Item
from duplex.protocol.native.settings import NoDetection, Settings


class NativeReader:
    """Reads the events of one session into `conversation`."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def receive(self, event: Event, now: float) -> Dropped | None:
        """Take one event that arrived at `now`, in seconds; returns what is not played because of it."""
        conversation = self._conversation
        match event:
            case Speech(response_id=response_id, item_id=item_id, pcm=pcm):
                conversation.audio(response_id, item_id, pcm, now)
            case server.Opened(settings=settings) | server.Updated(settings=settings):
                self._configured(settings)
            case server.Resumed():
                conversation.observer.resumed()
            case server.Error(message=message):
                conversation.failed(message)
            case server.SpeechStarted():
                return conversation.speech_started(now)
            case server.SpeechStopped(item_id=item_id, at_ms=at_ms):
                conversation.speech_stopped(item_id, at_ms, now)
            case server.Committed(item_id=item_id):
                conversation.committed(item_id, now)
            case server.Transcribed(item_id=item_id, text=text):
                conversation.heard(item_id, text)
            case _:
                self._answer(event, now)
        return None

    def _answer(self, event: Event, now: float) -> None:
        conversation = self._conversation
        match event:
            case server.ResponseCreated(response=response):
                conversation.created(response.response_id, now)
            case server.ResponseText(response_id=response_id, text=text):
                conversation.says(response_id, text)
            case server.ItemRetrieved(item=item):
                self._retrieved(item)
            case server.ResponseDone(response=response):
                if response.item is not None:
                    conversation.said(response.response_id, _words(response.item))
                conversation.done(
                    response.response_id, status=response.status, reason=response.reason, error=response.error, now=now
                )
            case _:
                pass

    def _configured(self, settings: Settings) -> None:
        session = msgspec.to_builtins(settings)
        detection = settings.turn_detection
        self._conversation.configured(
            session, None if isinstance(detection, NoDetection) else session["turn_detection"]
        )

    def _retrieved(self, item: Item) -> None:
        """The server has been told how far an answer was heard: these are the words."""
        for turn in self._conversation.turns:
            if turn.item_id == item.item_id:
                turn.said = _words(item)


def _words(item: Item) -> str:
    return " ".join(part.text for part in item.parts if part.text)
