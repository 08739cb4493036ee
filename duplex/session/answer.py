"""One answer: what was made of it, and what of that was heard."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.connector.payload import Message, Prompt, Tool
from duplex.session.conversation import Conversation
from duplex.session.effects import Effect, Note, Play, Tell
from duplex.session.events import Completed
from duplex.session.fence import Fence
from duplex.session.item import Item, Part, Status
from duplex.session.notices import (
    Interrupted,
    ItemAdded,
    ResponseCreated,
    ResponseInfo,
    ResponseItemAdded,
    ResponseStatus,
    ResponseText,
)
from duplex.session.playback import Playback, cut_to_words
from duplex.session.settings import Modality, ResponseOptions, SessionSettings


@dataclass(slots=True, kw_only=True)
class Answer:
    """One response, and the ledger of its audio.

    Attributes:
        fence: of its turn.
        hz: of its audio.
        settings: of the session when it was begun.
        announced: whether the client knows of it. Until then its gate is shut: nothing of it goes out or into history.
        prompted: the messages that it answers, once they are known.
        text: everything generated so far.
        added: whether its item is in the conversation; `previous_item_id`: the item before that.
        usage: what it cost, once all is generated.
    """

    response_id: str
    item_id: str
    fence: Fence
    modality: Modality
    options: ResponseOptions
    max_output_tokens: int
    hz: int
    settings: SessionSettings
    playback: Playback
    announced: bool = False
    prompted: tuple[Message, ...] | None = None
    text: str = ""
    added: bool = False
    previous_item_id: str | None = None
    usage: Completed | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What its model may ask to be called."""
        return () if (self.options.tool_choice or self.settings.tool_choice) == "none" else self.settings.tools

    @property
    def instructions(self) -> str:
        """Its system message: what held when it began, whatever has been set since."""
        own = self.options.instructions
        return self.settings.instructions if own is None else own

    def prompt(self, messages: tuple[Message, ...]) -> Prompt:
        """It answers these messages."""
        self.prompted = messages
        return Prompt(
            messages=messages,
            max_tokens=self.max_output_tokens,
            temperature=self.settings.temperature,
            tools=self.tools,
            may_cut=self.settings.truncation != "disabled",
        )

    def ms(self, samples: int) -> int:
        """A length of its audio in milliseconds."""
        return samples * 1000 // self.hz

    def item(self, *, status: Status, text: str, samples: int) -> Item:
        """Its item, with this much of it."""
        part = Part(kind=self.modality, text=text, audio_ms=self.ms(samples))
        return Item(item_id=self.item_id, role="assistant", status=status, parts=(part,))

    def heard(self, samples: int) -> Item:
        """Its item as it was heard, once `samples` have been played. Text that is not spoken was seen at once."""
        if self.modality == "text":
            return self.item(status="incomplete", text=self.text, samples=0)
        heard = self.playback.heard(samples)
        text = cut_to_words(self.text, heard.text_end)
        return self.item(status="incomplete", text=text, samples=heard.samples)

    # What is told of it -----------------------------------------------------------------------

    def announce(self) -> list[Effect]:
        """The client may know of it from now on."""
        self.announced = True
        return [Tell(notice=ResponseCreated(response=self.info("in_progress")))]

    def add(self, conversation: Conversation) -> list[Effect]:
        """Its item comes into the conversation, if it is not there."""
        if self.added:
            return []
        self.added = True
        item = self.item(status="in_progress", text="", samples=0)
        previous = self.previous_item_id = conversation.insert(item)
        added = ResponseItemAdded(response_id=self.response_id, item=item, previous_item_id=previous)
        return [Tell(notice=added), Tell(notice=ItemAdded(item=item, previous_item_id=previous))]

    def say(self, text: str, conversation: Conversation) -> list[Effect]:
        """More of its words."""
        told = ResponseText(response_id=self.response_id, item_id=self.item_id, text=text, modality=self.modality)
        return [*self.add(conversation), Tell(notice=told)]

    def due(self, now: float) -> list[Effect]:
        """Its audio that is to be sent now."""
        start = self.playback.sent
        first = start == 0
        effects: list[Effect] = []
        for handle in self.playback.due(now):
            # The audio's own fence goes with it, not the session's present one.
            play = Play(
                fence=handle.fence, response_id=self.response_id, item_id=self.item_id, handle=handle, start=start
            )
            effects.append(play)
            start += handle.samples
        if first and effects:
            effects.insert(0, Note(response_id=self.response_id, name="first_audio"))
        return effects

    def silence(self, samples: int) -> Effect:
        """Nothing of it is to be heard any more; so much was."""
        notice = Interrupted(
            response_id=self.response_id, item_id=self.item_id, epoch=self.fence.epoch, samples=samples
        )
        return Tell(notice=notice)

    def notes(self, name: str, now: float) -> list[Effect]:
        """For its waterfall: how far it had come at the moment of this name."""
        lengths = {
            "generated": self.playback.generated,
            "sent": self.playback.sent,
            "played": self.playback.played(now),
        }
        return [
            Note(response_id=self.response_id, name=f"{what}_when_{name}", value_ms=self.ms(samples))
            for what, samples in lengths.items()
        ]

    def shown(self) -> ResponseInfo:
        """What a client is told that knows nothing of it yet, while it is under way."""
        item = self.item(status="in_progress", text=self.text, samples=self.playback.sent)
        return self.info("in_progress", item=item if self.added else None)

    def info(
        self, status: ResponseStatus, *, reason: str = "", error: str = "", item: Item | None = None
    ) -> ResponseInfo:
        """What a client is told of it."""
        usage = self.usage
        return ResponseInfo(
            response_id=self.response_id,
            modality=self.modality,
            status=status,
            status_reason=reason,
            error=error,
            item=item,
            previous_item_id=self.previous_item_id,
            audio_ms=self.ms(self.playback.sent),
            input_tokens=usage.input_tokens if usage is not None else 0,
            cached_tokens=usage.cached_tokens if usage is not None else 0,
            output_tokens=usage.output_tokens if usage is not None else 0,
            max_output_tokens=self.max_output_tokens,
            metadata=self.options.metadata,
            epoch=self.fence.epoch,
        )
