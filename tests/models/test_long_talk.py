"""A conversation three times as long as the context of the real model: the session's window does the cutting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duplex.connector.payload import Message, Prompt
from duplex.engine.completion import Completion
from duplex.models.smollm2 import chat
from duplex.models.smollm2.model import SmolLM2
from duplex.session.conversation import Conversation
from duplex.session.fence import MAIN, Fence
from duplex.session.item import Item, Part, Role, Status
from duplex.session.settings import SessionSettings
from duplex.session.window import Window

CONTEXT = 512
ANSWER = 24
INSTRUCTIONS = "You are a friendly assistant who knows a lot about rivers and the sea. Answer in one short sentence."

pytestmark = [pytest.mark.models, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def model(model_path: Callable[[str], Path]) -> Iterator[SmolLM2]:
    path = model_path("smollm2/q4_1.gguf")
    model = SmolLM2(model=path, owner="think", caches=1, context_tokens=CONTEXT, threads=1, batch_threads=2)
    yield model
    model.close()


class Talk:
    """A session's history and the model, without a session between them."""

    def __init__(self, model: SmolLM2) -> None:
        self.model = model
        self.conversation = Conversation(
            max_items=1000, max_chars=1_000_000, window=Window(context_tokens=CONTEXT, answer_tokens=ANSWER)
        )
        self.conversation.configure(SessionSettings(instructions=INSTRUCTIONS))
        self.turns = 0

    def _item(self, role: Role, text: str | None, status: Status = "completed") -> Item:
        return Item(item_id=f"{role}{self.turns}", role=role, status=status, parts=(Part(kind="audio", text=text),))

    def turn(self, text: str) -> tuple[tuple[Message, ...], Completion]:
        self.turns += 1
        self.conversation.insert(self._item("user", None))
        self.conversation.replace(self._item("user", text))
        messages = self.conversation.messages(INSTRUCTIONS)
        pieces: list[str] = []
        done = self.model.generate(
            Prompt(messages=messages, max_tokens=ANSWER, temperature=0.0),
            fence=Fence("talk", 0, MAIN, self.turns),
            on_text=lambda piece: pieces.append(piece) is None,
            interrupt=self.model.interrupt(),
        )
        self.conversation.insert(self._item("assistant", "", "in_progress"))
        self.conversation.answered(messages, done.input_tokens)
        self.conversation.replace(self._item("assistant", "".join(pieces).strip()))
        return messages, done


def test_it_goes_on(model: SmolLM2) -> None:
    talk = Talk(model)
    window = talk.conversation.window
    spoken = fullest = cuts = 0
    shares: list[float] = []
    before: Completion | None = None
    while spoken < 3 * CONTEXT:
        rested, cuts = window.cuts == cuts, window.cuts
        messages, done = talk.turn(f"Tell me thing number {talk.turns} about rivers, and make it a good one, please.")
        assert messages[0] == Message(role="system", text=INSTRUCTIONS)
        assert done.reason in ("stop", "length")
        assert done.output_tokens
        # What the engine's own guard would cut is never reached, so its prompt is the session's.
        assert done.input_tokens == model.state.count_tokens(chat.prompt(messages))
        spoken += done.output_tokens + model.state.count_tokens(messages[-1].text)
        fullest = max(fullest, done.input_tokens)
        if before is not None and rested:
            shares.append(done.cached_tokens / (before.input_tokens + before.output_tokens - 1))
        before = done
        assert model.state.check_integrity() == []
    assert 3 <= cuts <= talk.turns // 3
    assert fullest > 0.6 * CONTEXT
    assert len(shares) > 2 * cuts
    assert min(shares) >= 0.95, shares
    assert len(talk.conversation) == 2 * talk.turns, "the history itself is whole"
