"""One answer: what was made of it, and what of that was heard."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.connector.payload import Message, Tool
from duplex.session.events import Completed
from duplex.session.fence import Fence
from duplex.session.item import Item, Part, Status
from duplex.session.notices import ResponseInfo, ResponseStatus
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
