"""Where the prompts of a conversation begin that has become longer than a model's context."""

from __future__ import annotations

from collections.abc import Sequence

from duplex.connector.payload import Message
from duplex.session.item import Item
from duplex.session.settings import RetentionRatio, Truncation

AUTO = RetentionRatio(retention_ratio=0.7)
"""What ``auto`` means: with each cut nearly a third goes, so that the next one is some turns away."""

_TOKENS_PER_BYTE = 0.33
"""Until a model has counted: English has 0.22 to 0.25."""

_MARKER_TOKENS = 5
"""That a message has besides its text."""

_LEAST_BYTES = 200
"""A prompt shorter than this says too little of the others."""

_TURN = 16
"""Part of the context, one in so many, that is left for the user's next turn: 128 of 2,048 tokens, or half a minute."""


class Window:
    """The cut: the first item that is in prompts, moved between turns only, and then by whole exchanges and far enough
    to rest for several turns, because whatever a moved cut leaves has to be read again.

    How long the conversation is, is reckoned by its bytes, and by what the model has counted in the newest prompt. What
    that gets wrong (a single turn of the user's that is longer than the rest of the context) the model's own guard
    cuts from that one prompt.

    Args:
        context_tokens: room of the model for a prompt with its answer.
        answer_tokens: that the longest answer has.

    Attributes:
        policy: what to do where the room is short.
        begin: id of the first item in prompts; None for the first that there is.
        cuts: times that it has moved.
        dropped: items before it, as of the last cut.
    """

    def __init__(self, *, context_tokens: int, answer_tokens: int) -> None:
        self.policy: Truncation = "auto"
        self.begin: str | None = None
        self.cuts = 0
        self.dropped = 0
        self._context = context_tokens
        self._answer = min(answer_tokens, context_tokens // 4)
        self._rate = _TOKENS_PER_BYTE

    def shown(self, items: Sequence[Item]) -> Sequence[Item]:
        """What of all `items` is in prompts."""
        for index, item in enumerate(items):
            if item.item_id == self.begin:
                return items[index:]
        return items

    def forget(self, item_id: str, following: str | None) -> None:
        """An item is deleted; `following` comes after it."""
        if self.begin == item_id:
            self.begin = following

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        """A model has found so many tokens in a prompt of these messages; 0 says nothing.

        What is reckoned to be longer than its context may have been cut by its guard, and teaches nothing.
        """
        length = sum(len(message.text.encode(errors="replace")) for message in messages)
        spoken = tokens - _MARKER_TOKENS * len(messages)
        if length >= _LEAST_BYTES and spoken > 0 and sum(map(self._of_message, messages)) <= self._context:
            self._rate = spoken / length

    def fit(self, items: Sequence[Item], instructions: str) -> bool:
        """Move the cut if it must move; True where it has. To be called between turns."""
        policy = AUTO if self.policy == "auto" else self.policy
        if not isinstance(policy, RetentionRatio):
            return False
        kept = self.shown(items)
        costs = [self._of_item(item) for item in kept]
        room = self._context - self._answer - self._context // _TURN - self._of_text(instructions)
        if policy.most_tokens is not None:
            room = min(room, policy.most_tokens)
        if sum(costs) <= room:
            return False
        start = _start(kept, costs, policy.retention_ratio * room)
        if not start:
            return False
        self.begin = kept[start].item_id
        self.cuts += 1
        self.dropped = next(index for index, item in enumerate(items) if item.item_id == self.begin)
        return True

    def _of_text(self, text: str) -> float:
        return _MARKER_TOKENS + self._rate * len(text.encode(errors="replace"))

    def _of_message(self, message: Message) -> float:
        return self._of_text(message.text)

    def _of_item(self, item: Item) -> float:
        return self._of_text(item.text) if item.text else 0.0


def _start(items: Sequence[Item], costs: Sequence[float], room: float) -> int:
    """Index of the user's first item from which on all fits; of the user's newest where even that does not; else 0."""
    left, newest = sum(costs), 0
    for index, (item, cost) in enumerate(zip(items, costs, strict=True)):
        if item.role == "user":
            newest = index
            if index and left <= room:
                break
        left -= cost
    return newest
