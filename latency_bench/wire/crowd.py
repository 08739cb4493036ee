"""More clients than there are places: whether those inside notice, and whether those outside are told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count, cycle, islice, pairwise
from statistics import median

from duplex.client.call import call
from duplex.client.events import Event
from duplex.errors import TalkError
from latency_bench.clips import Clip, load
from latency_bench.table import Row
from latency_bench.wire.turns import Spoken, speak

OFFERED = 3
"""Clients for each place."""

WINDOW_S = 30.0
ROUNDS = 2
WARM_S = 20.0
"""Before anything counts: until then nobody has talked, and admission knows only what was declared."""

SPEECHES = 3
"""Clips that a client speaks before it leaves, and comes again."""

TOLD_S = 1.0
SLOWER = 1.1
INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
MOST_PLACES = 64


@dataclass(slots=True, kw_only=True)
class Visit:
    """One client's stay; times are of the event loop.

    Attributes:
        came_s: began to connect.
        told: positions in the queue, each with the time of its arrival.
        in_s: the session began; None where it never did.
        gone_s: had left, the queue or the session; None while it has not.
        spoken: what was said inside.
    """

    came_s: float
    told: list[tuple[float, int]] = field(default_factory=list)
    in_s: float | None = None
    gone_s: float | None = None
    spoken: list[Spoken] = field(default_factory=list)

    def listen(self, event: Event, now: float) -> None:
        if event.type == "duplex.queue.updated" and event.position is not None:
            self.told.append((now, event.position))

    @property
    def queue_end_s(self) -> float:
        """When it was in no queue any more."""
        return min(at_s for at_s in (self.in_s, self.gone_s, float("inf")) if at_s is not None)

    def position(self, at_s: float) -> int | None:
        """What it had been told last."""
        return next((position for told_s, position in reversed(self.told) if told_s <= at_s), None)


@dataclass(slots=True, kw_only=True)
class Window:
    """A stretch of time with so many clients."""

    clients: int
    visits: list[Visit] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def voice_to_voice_ms(self) -> list[float]:
        return [ms for visit in self.visits for one in visit.spoken if (ms := one.voice_to_voice_ms) is not None]

    @property
    def inside(self) -> float:
        """Sessions at one time, on the average of the time in which there was one."""
        stays = [(visit.in_s, visit.gone_s) for visit in self.visits if visit.in_s is not None]
        spans = [(in_s, gone_s) for in_s, gone_s in stays if gone_s is not None]
        if not spans:
            return 0.0
        whole_s = max(gone_s for _, gone_s in spans) - min(in_s for in_s, _ in spans)
        return sum(gone_s - in_s for in_s, gone_s in spans) / whole_s


@dataclass(slots=True, kw_only=True)
class Crowd:
    """What was found. `places`: sessions that were let in at once when nobody had talked yet."""

    places: int = 0
    crowded: list[Window] = field(default_factory=list)
    alone: list[Window] = field(default_factory=list)


async def crowd(url: str, *, window_s: float = WINDOW_S, rounds: int = ROUNDS) -> Crowd:
    """Offer `OFFERED` clients for each place, then as many clients as were inside, and so on by turns."""
    found = Crowd(places=await places(url))
    await _window(url, OFFERED * found.places, WARM_S)
    for _ in range(rounds):
        found.crowded.append(await _window(url, OFFERED * found.places, window_s))
        inside = max(1, round(found.crowded[-1].inside))
        found.alone.append(await _window(url, inside, window_s))
    return found


async def places(url: str) -> int:
    """How many sessions the server lets in at once."""
    async with AsyncExitStack() as stack:
        for number in count():
            visit = Visit(came_s=0.0)
            try:
                async with asyncio.timeout(TOLD_S):
                    await stack.enter_async_context(call(url=url, listener=visit.listen))
            except TimeoutError:
                return number
            if number == MOST_PLACES:
                raise TalkError(f"the server lets {MOST_PLACES} sessions in and more: there is no crowd for it")
    raise AssertionError("count() does not end")


async def _window(url: str, clients: int, window_s: float) -> Window:
    window, over = Window(clients=clients), asyncio.Event()
    # Whoever speaks takes the next clip: each window goes through the same ones.
    clips = cycle(load("turns"))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(clients):
            tasks.create_task(_client(url, window, clips, over))
        await asyncio.sleep(window_s)
        over.set()
    return window


async def _client(url: str, window: Window, clips: Iterator[Clip], over: asyncio.Event) -> None:
    """Come, wait, speak, leave, and come again."""
    loop = asyncio.get_running_loop()
    while not over.is_set():
        visit = Visit(came_s=loop.time())
        window.visits.append(visit)
        async with asyncio.TaskGroup() as tasks:
            staying = tasks.create_task(_stay(url, visit, window, clips, over))
            ending = tasks.create_task(over.wait())
            await asyncio.wait((staying, ending), return_when=asyncio.FIRST_COMPLETED)
            if visit.in_s is None:  # It still waits, and the window is over.
                staying.cancel()
            await asyncio.wait((staying,))
            ending.cancel()


async def _stay(url: str, visit: Visit, window: Window, clips: Iterator[Clip], over: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with call(url=url, session={"instructions": INSTRUCTIONS}, listener=visit.listen) as going:
            visit.in_s = loop.time()
            for clip in islice(clips, SPEECHES):
                visit.spoken += await speak(going, [clip], answer_s=1.0, url=url, api_key=None)
                if over.is_set():
                    break
    except TalkError as error:
        window.failures.append(str(error))
    finally:
        visit.gone_s = loop.time()


def untold(visits: Sequence[Visit], *, within_s: float = TOLD_S) -> list[str]:
    """Every stretch of time in which somebody who waited had not been told the true position, `within_s` after the
    newest change: each who waits has a number, and together they are 1 to n.

    A change is an arrival, an admission or a departure, as seen from the clients, who are all of the server's.
    """
    changes = sorted({at_s for visit in visits for at_s in (visit.came_s, visit.queue_end_s) if at_s != float("inf")})
    found = []
    for change_s, next_s in pairwise([*changes, float("inf")]):
        if next_s - change_s <= within_s:
            continue
        waiting = [visit for visit in visits if visit.came_s <= change_s < visit.queue_end_s]
        told = [visit.position(change_s + within_s) for visit in waiting]
        if sorted(position or 0 for position in told) != list(range(1, len(waiting) + 1)):
            found.append(f"{within_s:g} s after a change {len(waiting)} waited, and had been told {told}")
    return found


def by_clip_ms(windows: Sequence[Window]) -> dict[str, float]:
    """Median of voice to voice for each clip."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for window in windows:
        for visit in window.visits:
            for one in visit.spoken:
                if (ms := one.voice_to_voice_ms) is not None:
                    values[one.clip].append(ms)
    return {clip: median(found) for clip, found in values.items()}


def crowd_rows(found: Crowd) -> list[Row]:
    """The figures of `crowd`."""
    crowded, alone = by_clip_ms(found.crowded), by_clip_ms(found.alone)
    both = sorted(crowded.keys() & alone.keys())
    crowded_ms = median(crowded[clip] for clip in both) if both else None
    alone_ms = median(alone[clip] for clip in both) if both else None
    visits = [visit for window in found.crowded for visit in window.visits]
    first_ms = [(visit.told[0][0] - visit.came_s) * 1000 for visit in visits if visit.told]
    unknown = [text for window in found.crowded for text in untold(window.visits)]
    turns = [sum(len(window.voice_to_voice_ms) for window in windows) for windows in (found.crowded, found.alone)]
    inside = [round(window.inside, 1) for window in (*found.crowded, *found.alone)]
    offered = f"{found.crowded[0].clients} clients for {found.places} places" if found.crowded else ""
    return [
        Row(
            figure="voice to voice in a crowd / alone",
            value=crowded_ms / alone_ms if crowded_ms is not None and alone_ms else None,
            unit="",
            bar=SLOWER,
            note=f"{offered}, {turns[0]} turns; alone {turns[1]}; {len(both)} clips in both; inside {inside}",
        ),
        Row(figure="voice to voice in a crowd p50", value=crowded_ms, unit="ms", note="of each clip's median"),
        Row(figure="the same number of sessions alone", value=alone_ms, unit="ms", note="by turns with the crowd"),
        Row(
            figure="first position told, the last of all",
            value=max(first_ms, default=None),
            unit="ms",
            bar=TOLD_S * 1000,
            note=f"after the client began to connect; {len(first_ms)} waited, {len(visits)} came",
        ),
        Row(
            figure="times that a position was not true",
            value=float(len(unknown)) if first_ms else None,
            unit="",
            bar=0,
            note=f"{TOLD_S:g} s after a change; {sum(len(visit.told) for visit in visits)} positions told",
        ),
    ]
