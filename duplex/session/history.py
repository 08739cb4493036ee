"""The verbs on items: create, retrieve, delete, and truncate to what was heard."""

from __future__ import annotations

from dataclasses import replace

from duplex.errors import ClientError
from duplex.session.answering import Answering
from duplex.session.conversation import ROOT, Conversation
from duplex.session.effects import Effect, Tell
from duplex.session.events import CreateItem, DeleteItem, Played, RetrieveItem, TruncateItem
from duplex.session.item import Item
from duplex.session.notices import ItemAdded, ItemDeleted, ItemDone, ItemRetrieved, ItemTruncated


class History:
    """Changes a conversation as its client asks. Every method raises ClientError, having changed nothing."""

    def __init__(self, *, session_id: str, conversation: Conversation, answering: Answering) -> None:
        self._session_id = session_id
        self._conversation = conversation
        self._answering = answering
        self._items = 0

    def _item(self, item_id: str, event_id: str | None, param: str = "item_id") -> Item:
        item = self._conversation.get(item_id)
        if item is None:
            message = f"There is no item {item_id!r} in this conversation."
            raise ClientError(message, code="item_not_found", param=param, event_id=event_id)
        return item

    def retrieve(self, event: RetrieveItem) -> list[Effect]:
        """Show an item."""
        return [Tell(notice=ItemRetrieved(item=self._item(event.item_id, event.event_id)))]

    def create(self, event: CreateItem) -> list[Effect]:
        item = event.item
        if item.item_id in self._conversation:
            message = f"There is an item {item.item_id!r} already; leave its id out, or choose another."
            raise ClientError(message, code="item_exists", param="item.id", event_id=event.event_id)
        if event.after is not None and event.after != ROOT:
            self._item(event.after, event.event_id, "previous_item_id")
        if not item.item_id:
            self._items += 1
            item = replace(item, item_id=f"item_{self._session_id.removeprefix('sess_')}_c{self._items}")
        previous = self._conversation.insert(item, after=event.after)
        added = ItemAdded(item=item, previous_item_id=previous)
        return [Tell(notice=added), Tell(notice=ItemDone(item=item, previous_item_id=previous))]

    def delete(self, event: DeleteItem) -> list[Effect]:
        item = self._item(event.item_id, event.event_id)
        if item.status == "in_progress":
            message = f"The item {item.item_id!r} is still being made; cancel its response first."
            raise ClientError(message, code="item_in_progress", param="item_id", event_id=event.event_id)
        self._conversation.delete(item.item_id)
        return [Tell(notice=ItemDeleted(item_id=item.item_id))]

    def truncate(self, event: TruncateItem) -> list[Effect]:
        item = self._item(event.item_id, event.event_id)
        if item.role != "assistant" or item.parts[0].kind != "audio":
            message = f"Only the assistant's audio can be truncated; {item.item_id!r} is something else."
            raise ClientError(message, code="invalid_item", param="item_id", event_id=event.event_id)
        if item.status == "in_progress":
            message = f"The item {item.item_id!r} is still being made; cancel its response first."
            raise ClientError(message, code="item_in_progress", param="item_id", event_id=event.event_id)
        if event.content_index != 0:
            message = f"The item {item.item_id!r} has one part, with content_index 0."
            raise ClientError(message, code="invalid_value", param="content_index", event_id=event.event_id)
        try:
            sent_ms = self._answering.ledgers.truncate(item.item_id, event.audio_end_ms)
        except KeyError:
            message = f"The item {item.item_id!r} is too old to be truncated, or was not spoken in this session."
            raise ClientError(message, code="invalid_item", param="item_id", event_id=event.event_id) from None
        if sent_ms is not None:
            message = f"The audio of {item.item_id!r} is {sent_ms} ms long; audio_end_ms is {event.audio_end_ms}."
            raise ClientError(message, code="invalid_value", param="audio_end_ms", event_id=event.event_id)
        truncated = ItemTruncated(
            item_id=item.item_id, content_index=event.content_index, audio_end_ms=event.audio_end_ms
        )
        return [Tell(notice=truncated)]

    def played(self, event: Played, now: float) -> list[Effect]:
        """The client says how much of an answer it has played."""
        if not self._answering.ledgers.acknowledged:
            message = "This session reckons what was played; open one with acknowledged playback to say it yourself."
            raise ClientError(message, code="playback_reckoned", event_id=event.event_id)
        try:
            effects = self._answering.played(event.item_id, event.samples, now)
        except KeyError:
            message = f"No audio is known of the item {event.item_id!r}: it is too old, or was never spoken."
            raise ClientError(message, code="item_not_found", param="item_id", event_id=event.event_id) from None
        if isinstance(effects, int):
            message = f"{event.samples} samples of {event.item_id!r} cannot have been played: {effects} were sent."
            raise ClientError(message, code="invalid_value", param="samples", event_id=event.event_id)
        return effects
