"""What sessions cost in which nobody speaks: attached ones that send nothing, and open microphones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from duplex.client.call import call
from duplex.client.player import ROOM_DBFS
from duplex.client.realtime import realtime_url
from duplex.errors import TalkError
from duplex.protocol.native import VERSION, client, server
from latency_bench.table import Row
from latency_bench.wire.link import Link, LinkLost
from latency_bench.wire.native import Native
from latency_bench.wire.server import Server

SESSIONS = 200
LOOK_S = 20.0
MICROPHONE_S = 12.0
SETTLE_S = 2.0
ATTACHED_PERCENT = 20.0
SESSION_KB = 200.0

MANY = ("--oversubscribe", "1000")
"""Flags of a server that lets so many in: each is reckoned at what it takes, and it takes next to nothing."""

LATE_S = 1.0
PERCENT = "% of a core"
SILENCE_DBFS = -200.0
"""Digital zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """Sessions that send nothing.

    Attributes:
        wanted, sessions: how many there should have been, and were let in and stayed.
        percent: of one core, for all of them together, the server's own idling included.
        kilobytes: resident, each.
    """

    wanted: int
    sessions: int
    percent: float | None
    kilobytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Microphones:
    """Percent of one core: of a server without a session, and with one that sends zeros, or the noise of a room."""

    nobody: float
    zeros: float
    room: float


async def attached(server_: Server, *, wanted: int = SESSIONS) -> Attached:
    """Let sessions in, half of each protocol, and look at the process.

    A session of the native protocol says `heartbeat` as often as the protocol asks for, and one of OpenAI's answers
    pings; otherwise they say nothing.
    """
    loop = asyncio.get_running_loop()
    await asyncio.sleep(SETTLE_S)
    before = server_.memory().rss
    async with asyncio.TaskGroup() as tasks:
        sitting: list[asyncio.Task[None]] = []
        for number in range(wanted):
            let_in: asyncio.Future[bool] = loop.create_future()
            sit = _sit_native if number % 2 else _sit_realtime
            sitting.append(tasks.create_task(sit(server_.url, let_in)))
            if not await let_in:
                break
        await asyncio.sleep(SETTLE_S)
        percent = await load(server_, seconds=LOOK_S)
        grown = server_.memory().rss - before
        still = [task for task in sitting if not task.done()]
        for task in still:
            task.cancel()
    each_kb = grown * 1000 / len(still) if still else None
    return Attached(wanted=wanted, sessions=len(still), percent=percent, kilobytes=each_kb)


async def microphones(server_: Server) -> Microphones:
    """One session with an open microphone into which nobody speaks."""
    nobody = await load(server_, seconds=MICROPHONE_S)
    figures = []
    for dbfs in (SILENCE_DBFS, ROOM_DBFS):
        async with call(url=server_.url, room_dbfs=dbfs):
            await asyncio.sleep(SETTLE_S)
            figures.append(await load(server_, seconds=MICROPHONE_S))
    return Microphones(nobody=nobody, zeros=figures[0], room=figures[1])


async def load(server_: Server, *, seconds: float) -> float:
    """CPU time of the next seconds in percent of one core.

    Where this process itself was kept from running in the middle of it, the server may have been as well: it is
    measured again then, three times at most.
    """
    loop = asyncio.get_running_loop()
    for _ in range(3):
        before_s, began_s = server_.cpu_s(), loop.time()
        await asyncio.sleep(seconds)
        taken_s = loop.time() - began_s
        if taken_s < seconds + LATE_S:
            return (server_.cpu_s() - before_s) / taken_s * 100
    raise TalkError(f"this machine was too busy to watch a server for {seconds:g} s; try again when it is not")


async def _sit_native(url: str, let_in: asyncio.Future[bool]) -> None:
    try:
        going = await Native.connect(url)
    except TalkError:
        let_in.set_result(False)
        return
    try:
        await going.say(client.Open(version=VERSION))
        opened = await going.hear()
        let_in.set_result(isinstance(opened, server.Opened))
        while isinstance(opened, server.Opened):
            await going.say(client.Ack(sequence=opened.sequence))
            await asyncio.sleep(opened.terms.heartbeat_s)
            await going.say(client.Heartbeat())
            await going.hear()
    except LinkLost:
        _settle(let_in)
    finally:
        going.link.abort()


async def _sit_realtime(url: str, let_in: asyncio.Future[bool]) -> None:
    try:
        link = await Link.open(realtime_url(url))
    except TalkError:
        let_in.set_result(False)
        return
    try:
        let_in.set_result(b'"session.created"' in _bytes(await link.receive()))
        while let_in.result():
            await link.receive()
    except LinkLost:
        _settle(let_in)
    finally:
        link.abort()


def _settle(let_in: asyncio.Future[bool]) -> None:
    if not let_in.done():
        let_in.set_result(False)


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def attached_rows(found: Attached) -> list[Row]:
    """The figures of `attached`."""
    note = f"{found.sessions} sessions, half of each protocol, over {LOOK_S:g} s"
    short = f"{found.sessions} of {found.wanted} were let in"
    return [
        Row(figure="attached sessions short", value=found.wanted - found.sessions, unit="", bar=0, note=short),
        Row(figure="attached sessions", value=found.percent, unit=PERCENT, bar=ATTACHED_PERCENT, note=note),
        Row(figure="memory of an attached session", value=found.kilobytes, unit="KB", bar=SESSION_KB, note=note),
    ]


def microphone_rows(found: Microphones) -> list[Row]:
    """The figures of `microphones`."""
    return [
        Row(figure="nobody connected", value=found.nobody, unit=PERCENT, note=f"over {MICROPHONE_S:g} s"),
        Row(figure="an open microphone, digital silence", value=found.zeros, unit=PERCENT, note="one session"),
        Row(
            figure="an open microphone, a quiet room",
            value=found.room,
            unit=PERCENT,
            note=f"one session, noise at {ROOM_DBFS:g} dBFS",
        ),
    ]
