"""What a long conversation costs: the first word of a late turn, and how much of the prompt is read again."""

from __future__ import annotations

from collections.abc import Sequence

from latency_bench.figures import median
from latency_bench.table import Row
from latency_bench.wire.typed import Reply, typed

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
QUESTIONS = (
    "What is the capital of France?",
    "How do plants make their food?",
    "Why is the sea salty?",
    "What do cats like to eat?",
    "How far away is the moon?",
    "What is a good name for a dog?",
)
TURNS = 50
SLOWER = 2.0
UNCACHED_PERCENT = 5.0


async def history(url: str, *, turns: int = TURNS) -> list[Reply]:
    """Ask so often in one conversation, in writing."""
    settings = {"instructions": INSTRUCTIONS, "output_modalities": ["text"], "max_output_tokens": 24}
    async with typed(url=url, session=settings) as going:
        return [await going.ask(QUESTIONS[turn % len(QUESTIONS)]) for turn in range(turns)]


def history_rows(replies: Sequence[Reply]) -> list[Row]:
    """The figures of `history`."""
    early_ms = [reply.first_ms for reply in replies[1:6] if reply.first_ms is not None]
    late_ms = [reply.first_ms for reply in replies[-5:] if reply.first_ms is not None]
    if len(replies) < 3 or replies[1].first_ms is None or replies[-1].first_ms is None:
        return [Row(figure="first word at the last turn / at turn 2", value=None, unit="", bar=SLOWER)]
    second, last = replies[1], replies[-1]
    around = f"medians of five {median(late_ms):.0f} and {median(early_ms):.0f} ms"
    # The newest question is new: of what came before it, so much had to be read again.
    again = 100 * (1 - last.cached_tokens / max(1, last.input_tokens))
    return [
        Row(
            figure="first word at the last turn / at turn 2",
            value=replies[-1].first_ms / replies[1].first_ms,
            unit="",
            bar=SLOWER,
            note=f"turn {len(replies)}: {last.first_ms:.0f} ms, turn 2: {second.first_ms:.0f} ms; {around}",
        ),
        Row(
            figure="prompt read again at the last turn",
            value=again,
            unit="%",
            bar=UNCACHED_PERCENT,
            note=f"{last.cached_tokens} of {last.input_tokens} tokens came from the cache, the new question included",
        ),
    ]
