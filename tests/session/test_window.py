"""session/window: where prompts begin, when that moves, and what a client sees of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.connector.payload import Message
from duplex.session.conversation import Conversation
from duplex.session.item import Item, Part
from duplex.session.settings import RetentionRatio, SessionSettings, Truncation
from duplex.session.window import Window

CONTEXT = 1000
INSTRUCTIONS = "Be kind and brief."


def item(item_id: str, role: str, text: str | None, *, kind: str = "audio", status: str = "completed") -> Item:
    part = Part(kind=kind, text=text)  # type: ignore[arg-type]
    return Item(item_id=item_id, role=role, status=status, parts=(part,))  # type: ignore[arg-type]


def conversation(truncation: Truncation = "auto", *, context: int = CONTEXT) -> Conversation:
    made = Conversation(
        max_items=1000, max_chars=1_000_000, window=Window(context_tokens=context, answer_tokens=context)
    )
    made.configure(SessionSettings(instructions=INSTRUCTIONS, truncation=truncation))
    return made


def tokens(messages: tuple[Message, ...]) -> int:
    """A tokenizer for tests: a token for each four bytes, and five for the markers."""
    return sum(5 + len(message.text) // 4 for message in messages)


def turn(here: Conversation, number: int, length: int = 120) -> tuple[Message, ...]:
    """A spoken exchange, as the session has it; returns its prompt."""
    asked, answered = f"user{number}", f"assistant{number}"
    here.insert(item(asked, "user", None))
    here.replace(item(asked, "user", f"{number} " + "q" * length))
    prompt = here.messages(INSTRUCTIONS)
    here.insert(item(answered, "assistant", "", status="in_progress"))
    here.answered(prompt, tokens(prompt))
    here.replace(item(answered, "assistant", f"{number} " + "a" * length))
    return prompt


def test_a_conversation_goes_on_for_ever_in_steps() -> None:
    here = conversation()
    begins, longest = [], 0
    for number in range(100):
        prompt = turn(here, number)
        longest = max(longest, tokens(prompt))
        assert prompt[0] == Message(role="system", text=INSTRUCTIONS)
        assert prompt[1].role == "user"
        assert prompt[-1].text.startswith(f"{number} ")
        begins.append(prompt[1].text)
    assert longest < CONTEXT - CONTEXT // 4
    assert here.window.cuts == len(set(begins)) - 1
    assert 10 <= here.window.cuts <= 35, "each cut is some turns from the next"
    assert len(here) == 200, "nothing is taken out of the history"


def test_it_moves_between_turns_only() -> None:
    here = conversation()
    number = 0
    while not here.window.cuts:
        turn(here, number)
        number += 1
    begin = here.window.begin
    here.insert(item("long", "user", None))
    here.replace(item("long", "user", "x" * 4000))
    here.insert(item("answer", "assistant", "", status="in_progress"))
    assert here.window.begin == begin
    here.replace(item("answer", "assistant", "Well."))
    assert here.window.begin == "long"


def test_text_that_a_client_writes_between_turns_moves_it() -> None:
    here = conversation()
    for number in range(40):
        here.insert(item(f"u{number}", "user", "x" * 200, kind="text"))
        assert sum(5 + 0.33 * len(message.text) for message in here.messages(INSTRUCTIONS)) < CONTEXT * 3 // 4
    assert here.window.cuts


def test_disabled_cuts_nothing() -> None:
    here = conversation("disabled")
    for number in range(60):
        turn(here, number)
    assert (here.window.cuts, here.window.begin) == (0, None)
    assert len(here.messages("")) == 120


def test_the_ratio_is_how_much_is_kept() -> None:
    kept = {}
    for ratio in (0.3, 0.9):
        here = conversation(RetentionRatio(retention_ratio=ratio))
        number = 0
        while not here.window.cuts:
            turn(here, number)
            number += 1
        kept[ratio] = len(here.messages(""))
    assert kept[0.3] * 2 < kept[0.9]


def test_a_limit_of_ones_own_holds_before_the_context_does() -> None:
    here = conversation(RetentionRatio(retention_ratio=0.8, most_tokens=200))
    for number in range(30):
        prompt = turn(here, number)
        assert tokens(prompt[1:]) < 200 + 2 * 40
    assert here.window.cuts > 5


def test_a_changed_policy_holds_at_once() -> None:
    here = conversation()
    for number in range(5):
        turn(here, number)
    assert not here.window.cuts
    here.configure(
        SessionSettings(instructions=INSTRUCTIONS, truncation=RetentionRatio(retention_ratio=0.5, most_tokens=100))
    )
    assert here.window.cuts == 1
    assert here.window.dropped == 8


def test_it_learns_how_long_words_are_from_what_was_counted() -> None:
    dense = conversation()
    for number in range(40):
        dense.insert(item(f"u{number}", "user", None))
        dense.replace(item(f"u{number}", "user", "漢字" * 15))
        prompt = dense.messages(INSTRUCTIONS)
        counted = sum(5 + len(message.text) for message in prompt[1:]) + 10
        dense.answered(prompt, counted)
        dense.insert(item(f"a{number}", "assistant", "漢字" * 15))
        assert counted < CONTEXT
    assert dense.window.cuts


def test_a_prompt_that_a_guard_has_cut_teaches_nothing() -> None:
    window = Window(context_tokens=CONTEXT, answer_tokens=200)
    window.learn((Message(role="user", text="x" * 100_000),), 700)
    assert window.fit([item("c", "user", "y" * 3000), item("d", "user", "?")], "")
    window.learn((Message(role="user", text="short"),), 900)
    window.learn((Message(role="user", text="x" * 1000),), 0)
    assert not window.fit([item("a", "user", "y" * 1500), item("b", "user", "?")], "")
    window.learn((Message(role="user", text="x" * 1000),), 705)
    assert window.fit([item("a", "user", "y" * 1500), item("b", "user", "?")], "")
    assert window.begin == "b"


def test_the_first_of_the_window_can_be_deleted() -> None:
    here = conversation()
    number = 0
    while not here.window.cuts:
        turn(here, number)
        number += 1
    begin = here.window.begin
    assert begin is not None
    here.delete(begin)
    assert here.messages("")[0].role == "assistant"
    shown = len(here.messages(""))
    here.delete("user0")
    assert len(here.messages("")) == shown


_texts = st.text("ab 漢", max_size=400)


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), _texts), max_size=30),
    st.integers(256, 2048),
    st.sampled_from(["auto", RetentionRatio(retention_ratio=0.5), RetentionRatio(retention_ratio=1.0, most_tokens=50)]),
)
def test_the_newest_question_always_stays(written: list[tuple[str, str]], context: int, truncation: Truncation) -> None:
    here = conversation(truncation, context=context)
    for number, (role, text) in enumerate(written):
        here.insert(item(str(number), role, text, kind="text"))
        shown = here.window.shown(here.items)
        newest = [one for one in here.items if one.role == "user"][-1:]
        assert all(one in shown for one in newest)
        assert shown == here.items[len(here) - len(shown) :]
    assert here.nbytes == sum(one.nbytes for one in here.items)


def test_bytes_are_counted() -> None:
    here = conversation()
    assert here.nbytes == 0
    here.insert(item("a", "user", None))
    empty = here.nbytes
    here.replace(item("a", "user", "x" * 1000))
    assert here.nbytes >= empty + 1000
    here.replace(replace(item("a", "user", ""), status="incomplete"))
    here.delete("a")
    assert here.nbytes == 0


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_every_change_is_a_revision(role: str) -> None:
    here = conversation()
    for change in (
        lambda: here.insert(item("a", role, "x")),
        lambda: here.replace(item("a", role, "y")),
        lambda: here.delete("a"),
    ):
        before = here.revision
        change()
        assert here.revision > before
