"""What a conversation keeps, and how much of it."""

from __future__ import annotations

from dataclasses import replace

from duplex.session.conversation import Conversation
from duplex.session.item import Item, Part
from duplex.session.window import Window


def conversation_of(*, max_chars: int = 1_000_000, max_items: int = 100, context: int = 2048) -> Conversation:
    window = Window(context_tokens=context, answer_tokens=200)
    return Conversation(max_items=max_items, max_chars=max_chars, window=window)


def said(item_id: str, text: str | None) -> Item:
    return Item(item_id=item_id, role="user", status="completed", parts=(Part(kind="text", text=text),))


def ids(conversation: Conversation) -> list[str]:
    return [item.item_id for item in conversation.items]


def test_the_oldest_go_where_there_is_too_much_text() -> None:
    conversation = conversation_of(max_chars=10)
    for name in "abc":
        conversation.insert(said(name, "1234"))
    assert ids(conversation) == ["b", "c"]
    assert conversation.insert(said("d", "123456789")) is None, "those before it are gone"
    assert ids(conversation) == ["d"]


def test_the_newest_stays_however_long_it_is() -> None:
    conversation = conversation_of(max_chars=10)
    conversation.insert(said("a", "1"))
    conversation.insert(said("b", "x" * 50), after="root")
    assert ids(conversation) == ["b"]


def test_text_that_comes_later_and_text_that_goes_is_counted() -> None:
    conversation = conversation_of(max_chars=10)
    conversation.insert(said("a", None))
    conversation.replace(said("a", "12345678"))
    conversation.insert(said("b", "123"))
    assert ids(conversation) == ["b"]
    conversation.replace(replace(said("b", ""), status="incomplete"))
    conversation.insert(said("c", "1234567890"))
    assert ids(conversation) == ["b", "c"]
    conversation.delete("c")
    conversation.insert(said("d", "1234567890"))
    assert ids(conversation) == ["b", "d"]
