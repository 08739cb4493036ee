"""What it is worth to begin to answer before it is certain that the turn is over, and what it costs."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np

from duplex.audio.pcm import Samples
from duplex.client.call import call
from duplex.client.events import Event
from duplex.errors import TalkError
from latency_bench.clips import Clip, load
from latency_bench.figures import median, percentile, word_errors
from latency_bench.table import Row
from latency_bench.wire import asking
from latency_bench.wire.server import Server
from latency_bench.wire.turns import Spoken, speak
from latency_bench.wire.typed import typed

OFF = ("--provisional", "off")
"""Flags of a server that recognises, thinks and speaks only when the turn is over."""

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
BLOCK = 4
"""Turns that one side speaks before it is the other's: what the machine does meanwhile meets both."""

WHOLE_S = 15.0
HEARD_S = 1.0
WHOLE = 4
"""Every fourth answer is heard to its end, and recognised again; of the others the first second."""

WORKING = ("hear", "think", "talk", "code2wav")
VOICE_TO_VOICE_MS = 350.0
RATIO = 0.6
WORD_ERRORS = 10.0


@dataclass(slots=True, kw_only=True)
class Side:
    """Everything that was measured with provisional turns on, or off.

    Attributes:
        server: of its own.
        turns: with an answer each. `pauses`: one sentence each, with a pause in it.
        counted: what its server has counted, by kind.
        used_s: seconds of each engine for these sessions.
        words: wrong ones, and all, of each answer that was recognised again.
    """

    server: Server
    turns: list[Spoken] = field(default_factory=list)
    pauses: list[Spoken] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    used_s: Counter[str] = field(default_factory=Counter)
    words: list[tuple[int, int]] = field(default_factory=list)

    @property
    def voice_to_voice_ms(self) -> list[float]:
        return [ms for spoken in self.turns if (ms := spoken.voice_to_voice_ms) is not None]

    @property
    def spoken(self) -> list[Spoken]:
        return [*self.turns, *self.pauses]

    @property
    def failures(self) -> list[str]:
        return [one.failure for one in self.spoken if one.failure and not one.cut]


class _Ear:
    """Keeps the audio of each answer."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, list[Samples]] = defaultdict(list)

    def listen(self, event: Event, _now: float) -> None:
        if event.type == "response.output_audio.delta":
            self._parts[event.response_id].append(event.pcm())

    def of(self, response_id: str) -> Samples:
        return np.concatenate([np.zeros(0, np.int16), *self._parts[response_id]])


async def converse(on: Side, off: Side, *, turns: int) -> None:
    """Speak the main set, by turns with one server and the other; then recognise what was answered."""
    clips = list(islice(cycle(load("turns")), turns))
    for number, start in enumerate(range(0, len(clips), BLOCK)):
        # Whoever begins a round goes second in the next.
        for side in (on, off) if number % 2 else (off, on):
            ear = _Ear()
            spoken = await _speak(side, clips[start : start + BLOCK], whole=WHOLE, ear=ear)
            side.turns += spoken
            side.words += await _recognised(side, spoken, ear)


async def hesitate(on: Side, off: Side) -> None:
    """Speak every clip with a pause in it, with both servers at once: when they answer does not matter here."""
    clips = [*load("inner_pauses"), *load("hesitations")]

    async def speak_to(side: Side) -> None:
        side.pauses += await _speak(side, clips, whole=0, ear=_Ear())

    async with asyncio.TaskGroup() as tasks:
        for side in (on, off):
            tasks.create_task(speak_to(side))


async def _speak(side: Side, clips: Sequence[Clip], *, whole: int, ear: _Ear) -> list[Spoken]:
    """One conversation. `whole`: one of so many answers is heard to its end; 0 for nothing of any."""
    url, spoken = side.server.url, []
    before = asking.events(await asking.metrics(url))
    try:
        async with call(url=url, session={"instructions": INSTRUCTIONS}, listener=ear.listen) as going:
            for number, clip in enumerate(clips):
                heard_s = 0.0 if not whole else WHOLE_S if number % whole == 0 else HEARD_S
                spoken += await speak(going, [clip], answer_s=heard_s, url=url, api_key=None)
            side.used_s.update(await asking.used_s(url, str(going.conversation.session["id"])))
    except TalkError as error:
        # What was lost with the connection counts as turns without a figure.
        lost = clips[len(spoken) :]
        spoken += [Spoken(clip=clip.file, text=clip.text, failure=f"{clip.file}: {error}") for clip in lost]
    after = asking.events(await asking.metrics(url))
    side.counted.update({kind: round(count - before.get(kind, 0)) for kind, count in after.items()})
    return spoken


async def _recognised(side: Side, spoken: Sequence[Spoken], ear: _Ear) -> list[tuple[int, int]]:
    """Word errors of the answers that were heard to their end, against what was `said`."""
    whole = [one.turn for one in spoken if not one.failure and one.turn.status == "completed"]
    async with typed(url=side.server.url, session={"audio": {"input": {"turn_detection": None}}}) as going:
        return [word_errors(turn.said, await going.recognise(ear.of(turn.response_id))) for turn in whole]


def conversation_rows(on: Side, off: Side) -> list[Row]:
    """The figures of `converse`."""
    with_ms, without_ms = median(on.voice_to_voice_ms), median(off.voice_to_voice_ms)
    ratio = with_ms / without_ms if with_ms is not None and without_ms else None
    how = f"{len(on.voice_to_voice_ms)} of {len(on.turns)} turns"
    without = f"{len(off.voice_to_voice_ms)} of {len(off.turns)} turns, by turns with the others"
    return [
        Row(figure="voice to voice p50", value=with_ms, unit="ms", bar=VOICE_TO_VOICE_MS, note=how),
        Row(figure="voice to voice p90", value=percentile(on.voice_to_voice_ms, 0.9), unit="ms"),
        Row(figure="the same without provisional turns", value=without_ms, unit="ms", note=without),
        Row(figure="with / without", value=ratio, unit="", bar=RATIO),
        _words("word errors of what was said aloud", on.words, bar=WORD_ERRORS),
        _words("the same without provisional turns", off.words),
    ]


def _words(figure: str, answers: Sequence[tuple[int, int]], *, bar: float | None = None) -> Row:
    total = sum(words for _, words in answers)
    share = 100 * sum(wrong for wrong, _ in answers) / total if total else None
    note = f"{len(answers)} of these answers, {total} words, recognised again from their audio"
    return Row(figure=figure, value=share, unit="%", bar=bar, note=note)


def cut_rows(on: Side, off: Side) -> list[Row]:
    """How many utterances were taken to be over before they were."""
    many = f"{len(on.spoken)} utterances, {len(on.pauses)} of them with a pause put in"
    return [
        Row(
            figure="turns ended inside a sentence",
            value=float(_cut(on.spoken)),
            unit="turns",
            bar=float(_cut(off.spoken)),
            note=f"of {many}; the bar is the same without provisional turns",
        ),
        Row(figure="pauses taken for the end", value=_share(on.pauses), unit="%", note=by_length(on.pauses)),
        Row(
            figure="the same without provisional turns",
            value=_share(off.pauses),
            unit="%",
            note=by_length(off.pauses),
        ),
    ]


def waste_rows(on: Side, off: Side) -> list[Row]:
    """What was begun and not used."""
    begun, kept = on.counted["provisional_turns"], on.counted["provisional_turns_confirmed"]
    spoken = max(1, len(on.spoken))
    on_s, off_s = (sum(side.used_s[engine] for engine in WORKING) for side in (on, off))
    each = ", ".join(f"{name} {_more(on.used_s[name], off.used_s[name])}" for name in WORKING)
    return [
        Row(
            figure="answers begun in vain",
            value=100 * (begun - kept) / begun if begun else None,
            unit="%",
            note=f"{begun - kept} of {begun} that were begun in a pause, {len(on.spoken)} utterances",
        ),
        Row(
            figure="work done in vain",
            value=100 * (on_s - off_s) / on_s if on_s and off_s else None,
            unit="%",
            note=f"{on_s / spoken:.2f} s of engines a turn, {off_s / spoken:.2f} s without provisional turns; {each}",
        ),
    ]


def _more(on_s: float, off_s: float) -> str:
    return f"{100 * (on_s - off_s) / off_s:+.0f} %" if off_s else "-"


def by_length(spoken: Sequence[Spoken]) -> str:
    """Cut ones of all, by the length of their pause, in one line."""
    lengths = {clip.file: clip.pauses[0].length_ms for clip in load() if clip.pauses}
    found: Mapping[int, list[Spoken]] = defaultdict(list)
    for one in spoken:
        found[lengths[one.clip]].append(one)
    short = [one for length, ones in found.items() if length < 400 for one in ones]
    parts = [f"under 400 ms {_cut(short)} of {len(short)}"] if short else []
    parts += [f"{length} ms {_cut(ones)} of {len(ones)}" for length, ones in sorted(found.items()) if length >= 400]
    return ", ".join(parts)


def _cut(spoken: Sequence[Spoken]) -> int:
    return sum(one.cut for one in spoken)


def _share(spoken: Sequence[Spoken]) -> float | None:
    return 100 * _cut(spoken) / len(spoken) if spoken else None
