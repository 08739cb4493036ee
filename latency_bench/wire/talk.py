"""The benchmark `talk`: spoken conversations with a server, measured on the waveform."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duplex.client.call import call
from duplex.client.player import RATE_HZ
from duplex.client.realtime import realtime_url
from duplex.client.talk import turn_detection
from duplex.errors import TalkError
from latency_bench import machine
from latency_bench.clips import Clip, load
from latency_bench.figures import median, percentile, word_errors
from latency_bench.plot import plot
from latency_bench.table import Report, Row
from latency_bench.wire.barge_in import INSTRUCTIONS, UNSENT_MS, Interruption, interrupt
from latency_bench.wire.server import Memory, Server, running
from latency_bench.wire.turns import Spoken, speak

SUMMARY = "voice to voice, turns cut short, barge-in, idle load, memory"

ONE_SENTENCE = "You are a helpful voice assistant. Answer in one short sentence."
IDLE_S = 10.0

VOICE_TO_VOICE_MS = 700.0
CUT_PERCENT = 5.0
BARGE_IN_MS = 150.0
IDLE_PERCENT = 2.0
RESIDENT_MB = 700.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `talk`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="also draw it (needs matplotlib)")
    parser.add_argument("--url", help="measure this server instead of starting one; then without idle load and memory")
    parser.add_argument("--pid", type=int, help="with --url: the server's process on this machine, to measure it too")
    parser.add_argument("--api-key", help="with --url: the server's key")
    parser.add_argument("--turn-detection", metavar="KIND", help="as in `duplex talk`; default: the server's own")
    parser.add_argument("--turns", type=int, default=20, help="clips of the main set to speak (default: %(default)s)")
    parser.add_argument("--pauses", type=int, default=99, help="clips with inner pauses to speak (default: all)")
    parser.add_argument("--trials", type=int, default=20, help="interruptions (default: %(default)s)")
    parser.add_argument("--answer-s", type=float, default=4.0, help="hear so much of an answer (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and judge.

    Raises:
        TalkError, ServerFailed: nothing can be measured; one sentence with the remedy.
    """
    return asyncio.run(_run(arguments))


@dataclass(slots=True, kw_only=True)
class Found:
    """What was measured; None where it was not."""

    detection: Mapping[str, Any] | None = None
    turns: Sequence[Spoken] = ()
    pauses: Sequence[Spoken] = ()
    interruptions: Sequence[Interruption] = ()
    idle_percent: float | None = None
    memory: Memory | None = None
    start_s: float | None = None

    @property
    def detection_note(self) -> str:
        """The settings of turn detection in one line, to stand beside each figure."""
        if self.detection is None:
            return "no turn detection"
        rest = ", ".join(f"{name}={value}" for name, value in self.detection.items() if name != "type")
        return f"{self.detection.get('type')}({rest})"


async def _run(arguments: argparse.Namespace) -> Report:
    settings = turn_detection(arguments.turn_detection) or {}
    report = Report(
        benchmark="talk",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={
            "instructions": ONE_SENTENCE,
            "room": "-60 dBFS noise, or the clip's own",
            "clips": "latency_bench/clips",
        },
    )
    stolen_s = machine.stolen_s()
    async with _server(arguments) as server:
        found = Found(start_s=server.start_s)
        if server.pid is not None:
            found.idle_percent = await _idle(server)
        await _converse(arguments, server, settings, found)
        if server.pid is not None:
            found.memory = server.memory()
    report.settings["detection"] = found.detection_note
    report.machine["stolen"] = f"{machine.stolen_s() - stolen_s:.1f} CPU seconds by other guests during the run"
    report.rows = rows(found, whole=server.pid is not None)
    report.failures += [spoken.failure for spoken in (*found.turns, *found.pauses) if spoken.failure]
    report.failures += [f"interruption {n}: {t.failure}" for n, t in enumerate(found.interruptions, 1) if t.failure]
    report.samples = {
        "turns": [spoken.report for spoken in found.turns],
        "pauses": [spoken.report for spoken in found.pauses],
        "interruptions": [asdict(trial) for trial in found.interruptions],
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    if arguments.plot is not None:
        plot(arguments.plot, turns=found.turns, interruptions=found.interruptions, title=found.detection_note)
    return report


@asynccontextmanager
async def _server(arguments: argparse.Namespace) -> AsyncIterator[Server]:
    if arguments.url is not None:
        yield Server(url=realtime_url(arguments.url), pid=arguments.pid, start_s=None)
        return
    async with running() as server:
        yield server


async def _idle(server: Server) -> float:
    """CPU time of ten seconds in which nobody is connected, in percent of one core."""
    await asyncio.sleep(1.0)
    before_s = server.cpu_s()
    await asyncio.sleep(IDLE_S)
    return (server.cpu_s() - before_s) / IDLE_S * 100


async def _converse(arguments: argparse.Namespace, server: Server, settings: Mapping[str, Any], found: Found) -> None:
    async def session(clips: Sequence[Clip], answer_s: float, settings: Mapping[str, Any]) -> list[Spoken]:
        asked = {"instructions": ONE_SENTENCE, **settings}
        try:
            async with call(url=server.url, api_key=arguments.api_key, session=asked) as going:
                found.detection = going.conversation.detection
                return await speak(going, clips, answer_s=answer_s, url=server.url, api_key=arguments.api_key)
        except TalkError as error:
            # What was lost with the connection counts as trials without a figure, one sentence for each.
            return [Spoken(clip=clip.file, text=clip.text, failure=f"{clip.file}: {error}") for clip in clips]

    found.turns = await session(load("turns")[: arguments.turns], arguments.answer_s, settings)
    found.pauses = await session(load("inner_pauses")[: arguments.pauses], 0.0, settings)
    found.interruptions = [await _interrupt(arguments, server, settings, number) for number in range(arguments.trials)]


async def _interrupt(
    arguments: argparse.Namespace, server: Server, settings: Mapping[str, Any], number: int
) -> Interruption:
    clips = load("turns")
    samples = clips[number % len(clips)].samples(RATE_HZ)
    # Different distances into the answer meet different phases of packets, clauses and detection.
    after_s = 0.8 + 0.11 * (number % 11)
    asked = {"instructions": INSTRUCTIONS, **settings}
    try:
        async with call(url=server.url, api_key=arguments.api_key, session=asked) as going:
            return await interrupt(going, samples, after_s=after_s, url=server.url, api_key=arguments.api_key)
    except TalkError as error:
        return Interruption(failure=str(error))


def rows(found: Found, *, whole: bool) -> list[Row]:
    """The figures and their bars.

    Args:
        whole: whether the server's process could be looked at; what needs that is skipped otherwise.
    """
    note = found.detection_note
    voice = [ms for spoken in found.turns if (ms := spoken.voice_to_voice_ms) is not None]
    ear = [ms for spoken in found.turns if (ms := spoken.voice_to_ear_ms) is not None]
    waits = [ms for spoken in found.turns if (ms := spoken.wait_ms) is not None]
    counted = f"{len(voice)} of {len(found.turns)} turns; {note}"
    found_rows = [
        Row(figure="voice to voice p50", value=median(voice), unit="ms", bar=VOICE_TO_VOICE_MS, note=counted),
        Row(figure="voice to voice p90", value=percentile(voice, 0.9), unit="ms", note=counted),
        Row(
            figure="voice to ear p50",
            value=median(ear),
            unit="ms",
            note="silence before the first sound counts",
        ),
        Row(figure="wait for the end of turn p50", value=median(waits), unit="ms", note=note),
    ]
    found_rows += _one_after_another(found.turns)
    spoken = [*found.turns, *found.pauses]
    cut = sum(one.cut for one in spoken)
    share = 100 * cut / len(spoken) if spoken else None
    paused = sum(one.cut for one in found.pauses)
    cut_note = f"{cut} of {len(spoken)} utterances, {paused} of {len(found.pauses)} with a pause put in; {note}"
    found_rows.append(
        Row(figure="turns ended inside a sentence", value=share, unit="%", bar=CUT_PERCENT, note=cut_note)
    )
    errors = [word_errors(one.text, one.turn.heard) for one in found.turns if not one.failure]
    total = sum(words for _, words in errors)
    wer = 100 * sum(wrong for wrong, _ in errors) / total if total else None
    found_rows.append(Row(figure="word error rate of what was heard", value=wer, unit="%", note=f"{total} words"))
    return found_rows + _barge_in(found.interruptions, note) + _process(found, whole)


def _one_after_another(turns: Sequence[Spoken]) -> list[Row]:
    """Voice to voice of the same turns, had each stage handed on its output as a whole.

    That is when the server had generated the answer to its end. Its stages did overlap, so a server that is made for
    requests would come later still: the comparison flatters it.
    """
    whole = [ms for one in turns if not one.failure and (ms := _generated_ms(one)) is not None]
    note = f"when the whole answer was generated, {len(whole)} of the same turns"
    return [Row(figure="the same without streaming p50", value=median(whole), unit="ms", note=note)]


def _generated_ms(spoken: Spoken) -> float | None:
    zero_ms = spoken.report.get("server_zero_ms")
    marks = {mark["name"]: mark["ms"] for mark in spoken.report.get("marks", ())}
    return None if zero_ms is None or "generated" not in marks else zero_ms + marks["generated"]


def _barge_in(trials: Sequence[Interruption], note: str) -> list[Row]:
    counted = [trial for trial in trials if not trial.failure]
    stops = [trial.stop_ms for trial in counted if trial.stop_ms is not None]
    notices = [trial.notice_ms for trial in counted if trial.notice_ms is not None]
    unsent = [trial.unsent_ms for trial in counted if trial.unsent_ms is not None]
    # Of every trial, also those that do not count for the time: late audio is late audio.
    stale = sum(trial.stale_bytes for trial in trials) if counted else None
    which = f"{len(counted)} of {len(trials)} trials, each >= {UNSENT_MS / 1000:g} s unsent"
    least = f" (least {min(unsent):.0f} ms)" if unsent else ""
    return [
        Row(figure="barge-in p50", value=median(stops), unit="ms", note=which + least),
        Row(figure="barge-in p99", value=percentile(stops, 0.99), unit="ms", bar=BARGE_IN_MS, note=f"{which}; {note}"),
        Row(figure="speech noticed p50", value=median(notices), unit="ms", note=note),
        Row(figure="old audio after speech_started", value=stale, unit="bytes", bar=0, note="all trials"),
    ]


def _process(found: Found, whole: bool) -> list[Row]:
    skipped = "" if whole else "skipped: the server's process is not known (--pid)"
    memory = found.memory
    about = (
        skipped if memory is None else f"PSS {memory.pss:.0f} MB, peak {memory.peak:.0f} MB; after the conversations"
    )
    return [
        Row(
            figure="idle load",
            value=found.idle_percent,
            unit="% of a core",
            bar=IDLE_PERCENT,
            note=skipped or f"over {IDLE_S:g} s after ready, nobody connected",
            skipped=not whole,
        ),
        Row(
            figure="resident memory",
            value=None if memory is None else memory.rss,
            unit="MB",
            bar=RESIDENT_MB,
            note=about,
            skipped=not whole,
        ),
        Row(
            figure="start to ready",
            value=found.start_s,
            unit="s",
            note="models present" if found.start_s else "not started here",
        ),
    ]
