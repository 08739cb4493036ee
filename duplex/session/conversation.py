"""The conversation: its items in order, where the prompts begin that they make, and what it takes."""

from __future__ import annotations

from duplex.connector.payload import Message
from duplex.session.item import Item
from duplex.session.settings import SessionSettings
from duplex.session.window import Window

ROOT = "root"


class Conversation:
    """Items in order, each id once.

    Args:
        max_items: items kept; the oldest go first.
        max_chars: characters of their texts kept, likewise; the newest item stays, however long it is.
        window: where its prompts begin.

    Attributes:
        nbytes: memory that its items take.
        revision: grows with each change.
    """

    def __init__(self, *, max_items: int, max_chars: int, window: Window) -> None:
        self.window = window
        self.nbytes = 0
        self.revision = 0
        self._instructions = ""
        self._max_items = max_items
        self._max_chars = max_chars
        self._chars = 0
        self._items: dict[str, Item] = {}
        self._order: list[str] = []

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    @property
    def items(self) -> tuple[Item, ...]:
        """Oldest first."""
        return tuple(self._items[item_id] for item_id in self._order)

    @property
    def awaits_transcript(self) -> bool:
        """Whether something that was said is still being recognised."""
        return any(item.awaits_transcript for item in self._items.values())

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def previous_of(self, item_id: str) -> str | None:
        """The id before this one; None for the first."""
        index = self._order.index(item_id)
        return self._order[index - 1] if index else None

    def insert(self, item: Item, *, after: str | None = None) -> str | None:
        """Put a new item after another, at the beginning (`ROOT`) or at the end (None); returns the id before it."""
        if after is None:
            self._order.append(item.item_id)
        elif after == ROOT:
            self._order.insert(0, item.item_id)
        else:
            self._order.insert(self._order.index(after) + 1, item.item_id)
        self._items[item.item_id] = item
        self._chars += item.chars
        self.nbytes += item.nbytes
        previous = self.previous_of(item.item_id)
        while len(self._order) > 1 and (len(self._order) > self._max_items or self._chars > self._max_chars):
            oldest = next(item_id for item_id in self._order if item_id != item.item_id)
            self.delete(oldest)
            previous = None if previous == oldest else previous
        self._changed(item)
        return previous

    def replace(self, item: Item) -> None:
        """Put a new version in the place of an item; nothing where it has been deleted."""
        if item.item_id in self._items:
            self._chars += item.chars - self._items[item.item_id].chars
            self.nbytes += item.nbytes - self._items[item.item_id].nbytes
            self._items[item.item_id] = item
            self._changed(item)

    def delete(self, item_id: str) -> None:
        item = self._items.pop(item_id)
        index = self._order.index(item_id)
        del self._order[index]
        self._chars -= item.chars
        self.nbytes -= item.nbytes
        self.revision += 1
        self.window.forget(item_id, self._order[index] if index < len(self._order) else None)

    def _changed(self, item: Item) -> None:
        """The cut may move, but not in the middle of a turn: while the user's words come, or while it is answered."""
        self.revision += 1
        in_turn = item.status == "in_progress" or (item.role == "user" and item.parts[0].kind == "audio")
        if not in_turn:
            self.window.fit(self.items, self._instructions)

    def configure(self, settings: SessionSettings) -> None:
        """These settings hold."""
        self._instructions, self.window.policy = settings.instructions, settings.truncation
        self.window.fit(self.items, self._instructions)

    def answered(self, messages: tuple[Message, ...], tokens: int) -> None:
        """A prompt of these messages had so many tokens; 0 where nobody counted."""
        self.window.learn(messages, tokens)

    def messages(self, instructions: str) -> tuple[Message, ...]:
        """The prompt: instructions, then every item of the window that has words. What was not heard is not in it."""
        system = (Message(role="system", text=instructions),) if instructions else ()
        shown = self.window.shown(self.items)
        return system + tuple(Message(role=item.role, text=item.text) for item in shown if item.text)
