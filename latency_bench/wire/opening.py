"""How long until a session has begun, or goes on after its connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from duplex.client.realtime import Realtime
from duplex.errors import TalkError
from duplex.protocol.native import client, server
from duplex.protocol.native.item import NewItem
from duplex.protocol.native.media import Frame
from latency_bench.figures import median, percentile
from latency_bench.table import Row
from latency_bench.wire.barge_in import INSTRUCTIONS, PROMPT
from latency_bench.wire.link import Link, LinkLost
from latency_bench.wire.native import Native, native_url, number_of

OPENS = 50
OPEN_MS = 5.0
RESUMES = 24
RESUME_MS = 50.0

HEARD_FRAMES = 6
LOST = 3
"""Newest messages that the client says it has not seen: they were on their way when the connection broke."""

AWAY_S = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """One trial.

    Attributes:
        plain_ms: a connection made and upgraded for nothing, just before: the network's part, and the handshake's.
        resumed_ms: from the start of the new connection to ``resumed``.
        again_ms: the same, to the first message that is sent again.
        failure: why the trial does not count; empty where it does.
    """

    plain_ms: float = 0.0
    resumed_ms: float = 0.0
    again_ms: float = 0.0
    failure: str = ""

    @property
    def cost_ms(self) -> float:
        """Of the resumption alone."""
        return self.again_ms - self.plain_ms


async def opens_ms(url: str, *, times: int = OPENS) -> list[float]:
    """From the start of the connection to the first event, on connections one after another."""
    loop, spans_ms = asyncio.get_running_loop(), []
    for _ in range(times):
        before_s = loop.time()
        realtime = await Realtime.open(url=url)
        await anext(realtime.raw())
        spans_ms.append((loop.time() - before_s) * 1000)
        await realtime.close()
    return spans_ms


async def resumptions(url: str, *, times: int = RESUMES) -> list[Resumption]:
    """Break the connection in the middle of an answer, FIN and RST by turns, and resume."""
    return [await _resumption(url, reset=number % 2 == 1) for number in range(times)]


async def _resumption(url: str, *, reset: bool) -> Resumption:
    try:
        async with asyncio.timeout(30):
            return await _broken_off(url, reset=reset)
    except (TalkError, LinkLost) as error:
        return Resumption(failure=str(error))
    except TimeoutError:
        return Resumption(failure="no answer within 30 s")


async def _broken_off(url: str, *, reset: bool) -> Resumption:
    loop = asyncio.get_running_loop()
    going = await Native.connect(url)
    opened = await going.open()
    await going.say(client.Ack(sequence=opened.sequence))
    await going.say(client.Update(item=NewItem(role="user", text=PROMPT)))
    await going.say(client.Signal(signal=client.Respond(instructions=INSTRUCTIONS)))
    newest = await _some_of_an_answer(going)
    going.link.reset() if reset else going.link.abort()
    await asyncio.sleep(AWAY_S)

    began_s = loop.time()
    plain = await Link.open(native_url(url))
    plain_ms = (loop.time() - began_s) * 1000
    plain.abort()

    began_s = loop.time()
    again = await Native.connect(url)
    await again.resume(opened, token=opened.token, seen=newest - LOST)
    resumed = await again.hear()
    resumed_ms = (loop.time() - began_s) * 1000
    first = await again.hear()
    again_ms = (loop.time() - began_s) * 1000
    await again.end()
    if not isinstance(resumed, server.Resumed) or resumed.resync:
        return Resumption(failure=f"the session was not resumed as it was: {resumed}")
    if number_of(first) != newest - LOST + 1:
        return Resumption(failure=f"after {newest - LOST} came {number_of(first)}, not the next")
    return Resumption(plain_ms=plain_ms, resumed_ms=resumed_ms, again_ms=again_ms)


async def _some_of_an_answer(going: Native) -> int:
    """Hear some frames; returns the newest number."""
    frames = newest = 0
    while frames < HEARD_FRAMES:
        message = await going.hear()
        frames += isinstance(message, Frame)
        newest = max(newest, number_of(message))
    return newest


def opening_rows(spans_ms: Sequence[float]) -> list[Row]:
    """The figures of `opens_ms`."""
    note = f"{len(spans_ms)} connections, handshake included"
    return [
        Row(figure="open to first event p50", value=median(spans_ms), unit="ms", bar=OPEN_MS, note=note),
        Row(figure="open to first event p99", value=percentile(spans_ms, 0.99), unit="ms"),
    ]


def resumption_rows(trials: Sequence[Resumption]) -> list[Row]:
    """The figures of `resumptions`."""
    counted = [trial for trial in trials if not trial.failure]
    cost_ms, plain_ms = [trial.cost_ms for trial in counted], [trial.plain_ms for trial in counted]
    plain = median(plain_ms)
    note = f"{len(counted)} of {len(trials)} answers broken off; to the first message that is sent again"
    network = "" if plain is None else f"beyond a plain connection and upgrade, {plain:.1f} ms in the same run"
    return [
        Row(figure="resume p50", value=median(cost_ms), unit="ms", bar=RESUME_MS, note=network),
        Row(figure="resume p99", value=percentile(cost_ms, 0.99), unit="ms", bar=RESUME_MS, note=note),
    ]
