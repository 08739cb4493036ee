"""The benchmark `sessions`: what the session kernel is worth, each figure beside the same without it."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duplex.errors import TalkError
from latency_bench import machine
from latency_bench.plot import plot_sessions
from latency_bench.table import Report, Row
from latency_bench.wire.crowd import Crowd, crowd, crowd_rows
from latency_bench.wire.history import TURNS, history, history_rows
from latency_bench.wire.opening import Resumption, opening_rows, opens_ms, resumption_rows, resumptions
from latency_bench.wire.provisional import (
    INSTRUCTIONS,
    OFF,
    Side,
    conversation_rows,
    converse,
    cut_rows,
    hesitate,
    waste_rows,
)
from latency_bench.wire.server import Server, ServerFailed, running
from latency_bench.wire.typed import Reply
from latency_bench.wire.upkeep import (
    MANY,
    PERCENT,
    SESSIONS,
    Attached,
    Microphones,
    attached,
    attached_rows,
    microphone_rows,
    microphones,
)

SUMMARY = "provisional turns, opening and resuming, many sessions, a crowd, history in the cache"

ROWS = ("open", "resume", "history", "voice", "cuts", "microphone", "attached", "crowd")
"""Groups of figures, in the order in which they are measured."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `sessions`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="also draw it (needs matplotlib)")
    parser.add_argument(
        "--only", nargs="+", choices=ROWS, default=ROWS, metavar="ROW", help=f"measure only these: {', '.join(ROWS)}"
    )
    parser.add_argument("--turns", type=int, default=20, help="clips to speak, on and off (default: %(default)s)")
    parser.add_argument("--history", type=int, default=TURNS, help="turns of the long conversation (default: 50)")
    parser.add_argument("--attached", type=int, default=SESSIONS, help="sessions that send nothing (default: 200)")
    parser.add_argument(
        "--many",
        default=" ".join(MANY),
        metavar="FLAGS",
        help="of the server that lets so many in (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and judge."""
    return asyncio.run(_run(arguments))


@dataclass(slots=True, kw_only=True)
class Found:
    """What was measured; None where it was not. `lost`: why, of those that were to be measured."""

    on: Side | None = None
    off: Side | None = None
    opens_ms: list[float] | None = None
    resumptions: list[Resumption] | None = None
    history: list[Reply] | None = None
    microphones: Microphones | None = None
    attached: Attached | None = None
    crowd: Crowd | None = None
    lost: list[str] = field(default_factory=list)


async def _run(arguments: argparse.Namespace) -> Report:
    report = Report(
        benchmark="sessions",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={
            "instructions": INSTRUCTIONS,
            "clips": "latency_bench/clips",
            "detection": "the server's own",
            "without provisional turns": f"duplex serve {' '.join(OFF)}",
            "many attached": f"duplex serve {arguments.many}",
        },
    )
    only, stolen_s = frozenset(arguments.only), machine.stolen_s()
    found = Found()
    for needs, flags, measure in (
        (only - {"attached", "crowd"}, (), _one_server),
        (only & {"attached"}, shlex.split(arguments.many), _attached),
        (only & {"crowd"}, (), _crowd),
    ):
        if needs:
            await _measured(measure, flags, arguments, needs, found)
    report.machine["stolen"] = f"{machine.stolen_s() - stolen_s:.1f} CPU seconds by other guests during the run"
    report.rows = rows(found, only)
    report.failures = _failures(found)
    report.samples = _samples(found)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    if arguments.plot is not None:
        plot_sessions(
            arguments.plot,
            on=found.on.turns if found.on is not None else (),
            off=found.off.turns if found.off is not None else (),
            costs={row.figure: row.value for row in report.rows if row.unit == PERCENT and row.value is not None},
            title=report.date,
        )
    return report


Measure = Callable[[argparse.Namespace, frozenset[str], Server, Found], Coroutine[Any, Any, None]]


async def _measured(
    measure: Measure, flags: Sequence[str], arguments: argparse.Namespace, only: frozenset[str], found: Found
) -> None:
    """Start a server and measure it. What cannot be measured leaves a sentence, and its figures fail their bars."""
    try:
        async with running(arguments=flags) as server:
            await measure(arguments, only, server, found)
    except (TalkError, ServerFailed) as error:
        found.lost.append(f"{', '.join(sorted(only))}: {error}")


async def _attached(arguments: argparse.Namespace, _only: frozenset[str], server: Server, found: Found) -> None:
    found.attached = await attached(server, wanted=arguments.attached)


async def _crowd(_arguments: argparse.Namespace, _only: frozenset[str], server: Server, found: Found) -> None:
    found.crowd = await crowd(server.url)


async def _one_server(arguments: argparse.Namespace, only: frozenset[str], server: Server, found: Found) -> None:
    """What is measured on a server that is started without flags, and beside one without provisional turns."""
    if "open" in only:
        found.opens_ms = await opens_ms(server.url)
    if "resume" in only:
        found.resumptions = await resumptions(server.url)
    if "history" in only:
        found.history = await history(server.url, turns=arguments.history)
    if "microphone" in only:
        found.microphones = await microphones(server)
    if only & {"voice", "cuts"}:
        async with running(arguments=OFF) as without:
            found.on, found.off = Side(server=server), Side(server=without)
            if "voice" in only:
                await converse(found.on, found.off, turns=arguments.turns)
            if "cuts" in only:
                await hesitate(found.on, found.off)


def rows(found: Found, only: Collection[str] = ROWS) -> list[Row]:
    """The figures and their bars."""
    told: list[Row] = []
    if found.on is not None and found.off is not None:
        told += conversation_rows(found.on, found.off) if "voice" in only else []
        told += cut_rows(found.on, found.off) if "cuts" in only else []
        told += waste_rows(found.on, found.off)
    if found.opens_ms is not None:
        told += opening_rows(found.opens_ms)
    if found.resumptions is not None:
        told += resumption_rows(found.resumptions)
    if found.history is not None:
        told += history_rows(found.history)
    if found.attached is not None:
        told += attached_rows(found.attached)
    if found.microphones is not None:
        told += microphone_rows(found.microphones)
    if found.crowd is not None:
        told += crowd_rows(found.crowd)
    if found.lost:
        told.append(Row(figure="groups without figures", value=float(len(found.lost)), unit="", bar=0))
    return told


def _failures(found: Found) -> list[str]:
    sides = (("on", found.on), ("off", found.off))
    failures = [*found.lost]
    failures += [f"{name}: {text}" for name, side in sides if side is not None for text in side.failures]
    failures += [f"resume: {trial.failure}" for trial in found.resumptions or () if trial.failure]
    if found.crowd is not None:
        failures += [text for window in (*found.crowd.crowded, *found.crowd.alone) for text in window.failures]
    return failures


def _samples(found: Found) -> dict[str, Any]:
    samples: dict[str, Any] = {
        name: [spoken.report for spoken in side.spoken]
        for name, side in (("on", found.on), ("off", found.off))
        if side is not None
    }
    samples["open_ms"] = found.opens_ms
    samples["resume"] = [asdict(trial) for trial in found.resumptions or ()]
    samples["history"] = [[one.first_ms, one.input_tokens, one.cached_tokens] for one in found.history or ()]
    if found.crowd is not None:
        samples["crowd_ms"] = [window.voice_to_voice_ms for window in found.crowd.crowded]
        samples["alone_ms"] = [window.voice_to_voice_ms for window in found.crowd.alone]
    return samples
