"""What of a long conversation the model gets to see. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from duplex.connector.payload import Message
from duplex.models.smollm2.chat import render

_STEPS = 4
"""The cut moves in steps of this fraction of the room. A moved cut shifts every cached position, which costs about
a tenth of a second, so it must not move with each turn."""


def fit(messages: Sequence[Message], *, budget_tokens: int, count: Callable[[str], int]) -> tuple[Message, ...]:
    """The messages that fit: the leading system messages, and the newest of the rest.

    Policy: the oldest exchanges (a user's message with all up to the next one) are dropped whole, in steps, so that the
    cut stays where it is for several turns. The newest message always stays. Where it is too long by itself, its
    beginning is cut; a system message is cut at its end, to half of the budget at most.

    Args:
        messages: oldest first.
        budget_tokens: for all of them, with their markers; at least 64.
        count: tokens of a rendered text, exact or an upper bound.
    """
    leading = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    system, rest = list(messages[:leading]), list(messages[leading:])
    costs = [count(render(message)) for message in rest]
    head = sum(count(render(message)) for message in system)
    if head + sum(costs) <= budget_tokens:
        return tuple(messages)
    if head > budget_tokens // 2:
        system = _cut_system(system, budget_tokens // 2, count)
        head = sum(count(render(message)) for message in system)
    room = budget_tokens - head
    start = _start(rest, costs, room)
    kept = rest[start:]
    if sum(costs[start:]) > room:
        # Not even the newest exchange fits: the question alone, as much of its end as there is room for.
        kept = [_trim(rest[-1], room, count, keep_end=True)] if rest else []
    return tuple(system + kept)


def _start(rest: Sequence[Message], costs: Sequence[int], room: int) -> int:
    """Index of the first message kept: the first exchange that begins at or after the cut."""
    too_many = sum(costs) - room
    if too_many <= 0:
        return 0
    step = max(1, room // _STEPS)
    cut = -(-too_many // step) * step
    dropped = 0
    newest = 0
    for index, message in enumerate(rest):
        if message.role == "user":
            newest = index
            if dropped >= cut:
                break
        dropped += costs[index]
    return newest


def _cut_system(system: Sequence[Message], budget: int, count: Callable[[str], int]) -> list[Message]:
    kept: list[Message] = []
    for message in system:
        cost = count(render(message))
        if cost > budget:
            kept.append(_trim(message, budget, count, keep_end=False))
            break
        kept.append(message)
        budget -= cost
    return kept


def _trim(message: Message, budget: int, count: Callable[[str], int], *, keep_end: bool) -> Message:
    """`message` cut to at most `budget` tokens; down to nothing but its markers if it must be."""
    text = message.text
    while text and (tokens := count(render(replace(message, text=text)))) > budget:
        keep = min(len(text) - 1, len(text) * budget // tokens)
        text = text[len(text) - keep :] if keep_end else text[:keep]
    return replace(message, text=text)
