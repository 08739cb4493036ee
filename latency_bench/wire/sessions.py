"""The benchmark `sessions`: what the session kernel is worth, each figure beside the same without it."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

from duplex.client.call import call
from duplex.client.realtime import Realtime
from latency_bench import machine
from latency_bench.clips import load
from latency_bench.figures import percentile, word_errors
from latency_bench.table import Report, Row
from latency_bench.wire.server import Server, running
from latency_bench.wire.turns import Spoken, speak
from latency_bench.wire.typed import Reply, typed

SUMMARY = "provisional turns on and off, opening, history in the cache, words of the answers"

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
QUESTIONS = (
    "What is the capital of France?",
    "How do plants make their food?",
    "Why is the sea salty?",
    "What do cats like to eat?",
    "How far away is the moon?",
    "What is a good name for a dog?",
)

VOICE_TO_VOICE_MS = 350.0
RATIO = 0.6
OPEN_MS = 5.0
OPENS = 50
TURNS = 50
SLOWER = 2.0
UNCACHED_PERCENT = 5.0
WORD_ERRORS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `sessions`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--turns", type=int, default=20, help="clips to speak, on and off (default: %(default)s)")
    parser.add_argument("--history", type=int, default=TURNS, help="turns of the long conversation (default: 50)")


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and judge. Raises TalkError, ServerFailed where nothing can be measured."""
    return asyncio.run(_run(arguments))


@dataclass(slots=True, kw_only=True)
class Side:
    """Everything that was measured with provisional turns on, or off."""

    turns: list[Spoken] = field(default_factory=list)
    pauses: list[Spoken] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)

    @property
    def voice_to_voice_ms(self) -> list[float]:
        return [ms for spoken in self.turns if (ms := spoken.voice_to_voice_ms) is not None]

    @property
    def cut(self) -> int:
        return sum(spoken.cut for spoken in (*self.turns, *self.pauses))


async def _run(arguments: argparse.Namespace) -> Report:
    report = Report(
        benchmark="sessions",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"instructions": INSTRUCTIONS, "clips": "latency_bench/clips", "detection": "the server's own"},
    )
    async with running(arguments=["--no-provisional"]) as server:
        off = await _speak(server, arguments.turns)
    async with running() as server:
        opens_ms = await _opens(server)
        on = await _speak(server, arguments.turns)
        answers = await _answers(server)
        history = await _history(server, arguments.history)
    report.rows = [*_provisional(on, off), *_opening(opens_ms), *_cached(history), _words(answers)]
    report.failures = [
        f"{name}: {one.failure}" for name, side in (("on", on), ("off", off)) for one in side.turns if one.failure
    ]
    report.samples = {
        "on": [spoken.report for spoken in on.turns],
        "off": [spoken.report for spoken in off.turns],
        "history": [[reply.first_ms, reply.input_tokens, reply.cached_tokens] for reply in history],
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    return report


async def _speak(server: Server, turns: int) -> Side:
    side = Side()
    asked = {"instructions": INSTRUCTIONS}
    async with call(url=server.url, session=asked) as going:
        side.turns = await speak(going, load("turns")[:turns], answer_s=1.0, url=server.url, api_key=None)
    async with call(url=server.url, session=asked) as going:
        side.pauses = await speak(going, load("inner_pauses")[:turns], answer_s=0.0, url=server.url, api_key=None)
    side.counted = await asyncio.to_thread(_counted, server.url)
    return side


def _counted(url: str) -> dict[str, int]:
    address = url.replace("ws://", "http://").split("/v1/")[0] + "/metrics"
    with urlopen(address, timeout=5) as page:
        text = page.read().decode()
    found = re.findall(r'duplex_events_total\{kind="(provisional_turns\w*)"\} ([0-9.]+)', text)
    return {name: int(float(value)) for name, value in found}


async def _opens(server: Server) -> list[float]:
    """From the sent handshake to the first event, on connections one after another."""
    loop, spans_ms = asyncio.get_running_loop(), []
    for _ in range(OPENS):
        before_s = loop.time()
        realtime = await Realtime.open(url=server.url)
        await anext(realtime.raw())
        spans_ms.append((loop.time() - before_s) * 1000)
        await realtime.close()
    return spans_ms


async def _answers(server: Server) -> list[tuple[int, int]]:
    """Word errors of answers, recognised again from the audio that was sent."""
    settings = {"instructions": INSTRUCTIONS, "audio": {"input": {"turn_detection": None}}}
    async with typed(url=server.url, session=settings) as going, typed(url=server.url, session=settings) as ear:
        found = []
        for question in QUESTIONS:
            reply = await going.ask(question)
            found.append(word_errors(reply.said, await ear.recognise(reply.audio)))
        return found


async def _history(server: Server, turns: int) -> list[Reply]:
    settings = {"instructions": INSTRUCTIONS, "output_modalities": ["text"], "max_output_tokens": 24}
    async with typed(url=server.url, session=settings) as going:
        return [await going.ask(QUESTIONS[turn % len(QUESTIONS)]) for turn in range(turns)]


def _provisional(on: Side, off: Side) -> list[Row]:
    with_ms, without_ms = percentile(on.voice_to_voice_ms, 0.5), percentile(off.voice_to_voice_ms, 0.5)
    ratio = with_ms / without_ms if with_ms is not None and without_ms else None
    begun = on.counted.get("provisional_turns", 0)
    wasted = begun - on.counted.get("provisional_turns_confirmed", 0)
    spoken = len(on.turns) + len(on.pauses)
    how = f"{len(on.voice_to_voice_ms)} of {len(on.turns)} turns"
    return [
        Row(figure="voice to voice p50", value=with_ms, unit="ms", bar=VOICE_TO_VOICE_MS, note=how),
        Row(figure="voice to voice p90", value=percentile(on.voice_to_voice_ms, 0.9), unit="ms"),
        Row(figure="the same without provisional turns", value=without_ms, unit="ms", note=f"{len(off.turns)} turns"),
        Row(figure="with / without", value=ratio, unit="", bar=RATIO),
        Row(
            figure="answers begun in vain",
            value=100 * wasted / begun if begun else None,
            unit="%",
            note=f"{wasted} of {begun} that were begun in a pause",
        ),
        Row(
            figure="turns ended inside a sentence",
            value=float(on.cut),
            unit="turns",
            bar=float(off.cut),
            note=f"of {spoken}; the bar is the same without provisional turns",
        ),
    ]


def _opening(spans_ms: Sequence[float]) -> list[Row]:
    note = f"{len(spans_ms)} connections, handshake included"
    return [Row(figure="open to first event p50", value=percentile(spans_ms, 0.5), unit="ms", bar=OPEN_MS, note=note)]


def _cached(history: Sequence[Reply]) -> list[Row]:
    if len(history) < 3 or history[1].first_ms is None or history[-1].first_ms is None:
        return [Row(figure="first word at the last turn / at turn 2", value=None, unit="", bar=SLOWER)]
    last = history[-1]
    # The newest question is new: of what came before it, so much had to be read again.
    again = 100 * (1 - last.cached_tokens / max(1, history[-1].input_tokens))
    return [
        Row(
            figure="first word at the last turn / at turn 2",
            value=last.first_ms / history[1].first_ms if last.first_ms else None,
            unit="",
            bar=SLOWER,
            note=f"turn {len(history)}: {last.first_ms:.0f} ms, turn 2: {history[1].first_ms:.0f} ms",
        ),
        Row(
            figure="prompt read again at the last turn",
            value=again,
            unit="%",
            bar=UNCACHED_PERCENT,
            note=f"{last.cached_tokens} of {last.input_tokens} tokens came from the cache, the new question included",
        ),
    ]


def _words(answers: Sequence[tuple[int, int]]) -> Row:
    total = sum(words for _, words in answers)
    share = 100 * sum(wrong for wrong, _ in answers) / total if total else None
    note = f"{len(answers)} answers, {total} words, recognised again from their audio"
    return Row(figure="word errors of what was said aloud", value=share, unit="%", bar=WORD_ERRORS, note=note)
