"""The benchmark `soak`: a real server under clients that do everything that clients do; afterwards nothing is left."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from duplex.client.player import RATE_HZ
from duplex.errors import TalkError
from latency_bench import machine
from latency_bench.clips import load
from latency_bench.table import Report
from latency_bench.wire import asking
from latency_bench.wire.chaos.client import Client
from latency_bench.wire.chaos.plan import visits
from latency_bench.wire.chaos.verdict import HELD, Soaked, State, left, rows
from latency_bench.wire.server import Server, Watch, running
from latency_bench.wire.typed import typed

SUMMARY = "minutes of clients that break off, come back, interrupt and send nonsense; then nothing may be left"

FLAGS = (
    *("--max-sessions", "7", "--oversubscribe", "100", "--prefix-caches", "3"),
    *("--queue-length", "2", "--queue-wait-s", "8"),
    *("--grace-s", "4", "--slow-reader-s", "2", "--max-message-bytes", "262144"),
)
"""Of the server: more sessions than it has cores and prefix caches, a short queue, and little patience."""

CLIENTS = 10
MINUTES = 3.0
SETTLE_S = 20.0
"""Time for the last sessions to be given up and cleaned up after: their grace, and what works when it ends."""

INSPECT_S = 5.0
LONGEST_MS = 2400
"""Clips up to this length are spoken: there is more to do than to listen."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `soak`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="determines what each client does (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="at one time (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and judge. Raises ServerFailed, TalkError where the server does not even start, or is gone."""
    report = asyncio.run(soak(minutes=arguments.minutes, seed=arguments.seed, clients=arguments.clients))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    return report


async def soak(*, minutes: float, seed: int, clients: int) -> Report:
    """See `run`."""
    report = Report(
        benchmark="soak",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        failed="promises broken, and faults",
        settings={"minutes": minutes, "seed": seed, "clients": clients, "server": f"duplex serve {' '.join(FLAGS)}"},
    )
    watch = Watch()
    async with running(arguments=FLAGS, stop=signal.SIGTERM, watch=watch) as server:
        await _rehearse(server)
        found = Soaked(watch=watch, before=await _settled(server, None))
        await _clients(server, found, seconds=60 * minutes, seed=seed, clients=clients)
        found.after = await _settled(server, found.before)
        found.ledger += await asking.findings(server.url)
        found.counted = asking.events(await asking.metrics(server.url))
    report.rows = rows(found)
    report.failures = [*found.heard.breaches, *found.ledger, *watch.faults]
    report.samples = {"heard": dict(found.heard.counts), "server": dict(found.counted)}
    return report


async def _rehearse(server: Server) -> None:
    """One turn, so that what is made at the first use is not taken for a leak."""
    async with typed(url=server.url, session={}) as going:
        await going.ask("Hello.")


async def _clients(server: Server, found: Soaked, *, seconds: float, seed: int, clients: int) -> None:
    over = asyncio.Event()
    clips = [clip.samples(RATE_HZ) for clip in load("turns") if clip.length_ms <= LONGEST_MS]
    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            client = Client(
                url=server.url,
                name=f"client {number}",
                plans=visits(seed, number),
                clips=clips,
                heard=found.heard,
                over=over,
            )
            tasks.create_task(client.run())
        tasks.create_task(_inspect(server, found, over))
        tasks.create_task(_watch_the_clock(found, over))
        await asyncio.sleep(seconds)
        over.set()


async def _inspect(server: Server, found: Soaked, over: asyncio.Event) -> None:
    """Compare the server's books with what it holds, again and again while everybody is at work."""
    while not over.is_set():
        try:
            found.ledger += await asking.findings(server.url)
            found.inspections += 1
        except TalkError as error:
            found.heard.breaches.append(str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(INSPECT_S):
                await over.wait()


async def _watch_the_clock(found: Soaked, over: asyncio.Event) -> None:
    """Note how long these clients were kept from running: what took so long then is not the server's fault."""
    loop = asyncio.get_running_loop()
    while not over.is_set():
        due_s = loop.time() + 1.0
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due_s):
                await over.wait()
        found.late_s = max(found.late_s, loop.time() - due_s)


async def _settled(server: Server, before: State | None) -> State:
    """Look at the server until it is at rest, as it was `before`; or, after `SETTLE_S`, as it is."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SETTLE_S
    while True:  # A process can only be looked at.
        state = await _look(server)
        if not left(state, before) or loop.time() > deadline_s:
            return state
        await asyncio.sleep(0.2)


async def _look(server: Server) -> State:
    read = await asking.metrics(server.url)
    held = {name: value for name, value in read.items() if name in HELD or name.startswith("duplex_stage_requests")}
    return State(holdings=server.holdings(), tasks=round(read["duplex_tasks"]), rss_mb=server.memory().rss, held=held)
