"""One client of a soak: carries out its plan, and leaves when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from duplex.audio.pcm import Samples
from duplex.client.player import RATE_HZ, Microphone
from duplex.errors import TalkError
from latency_bench.wire.chaos.ear import Ear, Heard, NativeEar, RealtimeEar
from latency_bench.wire.chaos.native import REFUSALS, NativeVoice
from latency_bench.wire.chaos.plan import LAST, Deed, Dialect, Moment, TurnPlan, VisitPlan
from latency_bench.wire.chaos.realtime import RealtimeVoice
from latency_bench.wire.link import Link, LinkLost, LinkRefused

FRAME_MS = 100
SMALL_BYTES = 4096
COMES_S = 8.0
"""How long a moment is waited for; a turn that was not heard as speech never gets there."""

ANSWER_S = 30.0
"""In which an answer that was asked for in writing has to begin and to end."""

FROZEN_S = (1.0, 18.0)
STALLED_S = (0.3, 10.0)
QUEUE_S = 60.0
AWAY_S = 1.5
"""Between two attempts of one who was turned away."""

TURN_S = 3.0
"""Most that is heard of an answer when nothing was done to it."""

PROMPTS = (
    "Tell me a long story about a dog who wanted to see the world.",
    "Why is the sea salty?",
    "What do cats like to eat?",
    "Please count from one to thirty.",
)


class Voice(Protocol):
    """What a client can do in either protocol; see `RealtimeVoice`."""

    link: Link
    begun: bool
    queued: int | None

    @property
    def ear(self) -> Ear: ...
    async def connect(self, url: str, *, receive_buffer_bytes: int | None) -> None: ...
    async def hear(self) -> None: ...
    async def idle(self) -> None: ...
    async def speak(self, samples: Samples) -> None: ...
    async def write(self, text: str) -> None: ...
    async def cancel(self) -> None: ...
    async def configure(self, instructions: str, silence_ms: int) -> None: ...
    async def forget(self, item_id: str, *, cut_ms: int | None) -> None: ...
    async def babble(self, choice: int) -> int | None: ...
    async def leave(self) -> None: ...


class _Over(Exception):
    """The visit ends here, as planned."""


class Client:
    """Comes, does what is planned, goes, and comes again.

    Args:
        url: of the server's realtime endpoint.
        name: for sentences.
        plans: of its visits.
        clips: what it can say, int16 [n] at 24 kHz each.
        heard: where everything is written down.
        over: set when it shall come no more; a visit under way then ends after its turn.
    """

    def __init__(
        self,
        *,
        url: str,
        name: str,
        plans: Iterator[VisitPlan],
        clips: Sequence[Samples],
        heard: Heard,
        over: asyncio.Event,
    ) -> None:
        self._url = url
        self._name = name
        self._plans = plans
        self._clips = clips
        self._heard = heard
        self._over = over

    async def run(self) -> None:
        """Until it is over."""
        for number, plan in enumerate(self._plans):
            if self._over.is_set():
                return
            visit = Visit(
                plan=plan,
                name=f"{self._name}, visit {number} ({plan.dialect})",
                clips=self._clips,
                heard=self._heard,
                over=self._over,
            )
            await visit.run(self._url)


class Visit:
    """One stay, from the connection to the goodbye. See `Client`."""

    def __init__(
        self, *, plan: VisitPlan, name: str, clips: Sequence[Samples], heard: Heard, over: asyncio.Event
    ) -> None:
        self._plan = plan
        self._clips = clips
        self._heard = heard
        self._over = over
        self._native: NativeVoice | None = None
        self._voice: Voice
        if plan.dialect is Dialect.NATIVE:
            self._voice = self._native = NativeVoice(ear=NativeEar(heard=heard, name=name))
        else:
            self._voice = RealtimeVoice(ear=RealtimeEar(heard=heard, name=name))
        self._ear = self._voice.ear
        self._microphone: Microphone | None = None
        self._lost: LinkLost | None = None
        self._expected: set[int | None] = set()
        self._reads, self._writes = asyncio.Event(), asyncio.Event()
        self._reads.set()
        self._writes.set()
        self._changed = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self._reader: asyncio.Task[None]

    async def run(self, url: str) -> None:
        """The whole of it."""
        self._heard.counts["visits"] += 1
        try:
            await self._voice.connect(url, receive_buffer_bytes=SMALL_BYTES if self._plan.small else None)
        except LinkRefused as refused:
            if refused.status != 503:
                self._ear.breach(str(refused))
            self._heard.counts["turned away"] += 1
            await self._rest(AWAY_S)
            return
        except (TalkError, LinkLost) as error:
            self._ear.breach(f"could not connect: {error}")
            await self._rest(AWAY_S)
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._reader = tasks.create_task(self._read())
                background = [tasks.create_task(self._beat())]
                with suppress(_Over):
                    await self._stay(background)
                for task in (self._reader, *background):
                    task.cancel()
        finally:
            self._voice.link.abort()
        if self._lost is not None and not self._voice.begun:
            self._heard.counts["turned away"] += 1
            await self._rest(AWAY_S)

    async def _stay(self, background: list[asyncio.Task[None]]) -> None:
        try:
            await self._enter()
            if any(turn.spoken or turn.deed in (Deed.INTERRUPT, Deed.STALL) for turn in self._plan.turns):
                self._microphone = Microphone(frame_ms=FRAME_MS)
                background.append(self._tasks.create_task(self._play(self._microphone)))
            for turn in self._plan.turns:
                how = "spoken" if turn.spoken else "written"
                self._ear.doing = f"{how}, {turn.deed} {turn.delay_s:.2f} s after {turn.moment}"
                await self._turn(turn)
                if self._over.is_set():
                    break
            await self._leave()
        except LinkLost as end:
            self._lost = self._lost or end
            self._broken(self._lost)

    # Waiting ----------------------------------------------------------------------------------

    async def _until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something that a message brings; False after `timeout_s`. Raises _Over where the link is lost."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while not ready():
            if self._lost is not None:
                self._broken(self._lost)
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._changed.wait()
            except TimeoutError:
                return ready()
        return True

    def _broken(self, end: LinkLost) -> None:
        if end.code not in self._expected:
            self._ear.breach(f"the server broke off: {end}")
        raise _Over

    async def _rest(self, seconds: float) -> None:
        """Let time pass, or the end come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    async def _enter(self) -> None:
        """Through the queue, or out of it."""
        voice, heard = self._voice, self._heard
        self._expected.add(1013)  # No room in the queue either, or waited for too long.
        if not await self._until(lambda: voice.begun or voice.queued is not None, 5.0):
            self._ear.breach("neither let in nor told a number in the queue within 5 s")
            raise _Over
        if voice.queued is not None:
            heard.counts["queued"] += 1
        patience_s = self._plan.patience_s if self._plan.patience_s is not None else QUEUE_S
        if not await self._until(lambda: voice.begun, patience_s):
            heard.counts["left the queue"] += 1
            raise _Over
        self._expected.discard(1013)
        heard.counts["sessions"] += 1

    # What goes on meanwhile -------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._reads.wait()
                await self._voice.hear()
                self._changed.set()
        except LinkLost as end:
            self._lost = end
        except TalkError as error:
            self._ear.breach(str(error))
            self._lost = LinkLost(None, str(error))
        self._changed.set()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            await self._writes.wait()
            with suppress(LinkLost):  # Its reader notices too.
                await self._voice.idle()

    async def _play(self, microphone: Microphone) -> None:
        async def append(samples: Samples) -> None:
            await self._writes.wait()
            with suppress(LinkLost):
                await self._voice.speak(samples)

        clock = asyncio.get_running_loop().time
        await microphone.play(append, clock=clock, sleep=asyncio.sleep, played=self._changed.set)

    # Turns ------------------------------------------------------------------------------------

    async def _turn(self, turn: TurnPlan) -> None:
        self._heard.counts["turns"] += 1
        self._ear.reached.clear()
        came = await (self._speak(turn) if turn.spoken else self._write(turn))
        self._heard.counts[f"at {turn.moment}" if came else "missed"] += 1
        await asyncio.sleep(turn.delay_s)
        self._heard.counts[f"deed {turn.deed}"] += 1
        await self._do(turn)
        if turn.deed in LAST:
            raise _Over
        await self._finish()

    async def _speak(self, turn: TurnPlan) -> bool:
        microphone = self._microphone
        assert microphone is not None
        clip = self._clips[turn.choice % len(self._clips)]
        microphone.say(clip)
        length_s = len(clip) / RATE_HZ
        if turn.moment is Moment.PAUSING:
            await self._until(lambda: not microphone.queued, length_s + COMES_S)
            return Moment.HEARING not in self._ear.reached
        return await self._until(lambda: turn.moment in self._ear.reached, length_s + COMES_S)

    async def _write(self, turn: TurnPlan) -> bool:
        refused = len(self._ear.refused)
        await self._voice.write(PROMPTS[turn.choice % len(PROMPTS)])
        enough = {turn.moment, Moment.ANSWERED}
        await self._until(lambda: bool(enough & self._ear.reached) or len(self._ear.refused) > refused, ANSWER_S)
        if not self._ear.reached and len(self._ear.refused) == refused:
            self._ear.breach(f"no answer within {ANSWER_S:g} s")
        return turn.moment in self._ear.reached

    async def _finish(self) -> None:
        """Hear the rest, or enough of it; then stop it, which must succeed."""
        if await self._until(lambda: not self._ear.answering, TURN_S):
            return
        await self._voice.cancel()
        if not await self._until(lambda: not self._ear.answering, ANSWER_S):
            self._ear.breach(f"an answer that was stopped did not end within {ANSWER_S:g} s")

    async def _do(self, turn: TurnPlan) -> None:
        voice, choice = self._voice, turn.choice
        match turn.deed:
            case Deed.NOTHING:
                pass
            case Deed.CANCEL:
                await voice.cancel()
            case Deed.INTERRUPT:
                await self._interrupt(choice)
            case Deed.CONFIGURE:
                await voice.configure(f"Answer in {choice % 9 + 1} words.", (0, 200, 500)[choice % 3])
            case Deed.FORGET:
                if self._ear.items:
                    item_id = self._ear.items[choice % len(self._ear.items)]
                    await voice.forget(item_id, cut_ms=choice % 3000 if choice % 2 else None)
            case Deed.BABBLE:
                await self._babble(choice)
            case Deed.STALL:
                await self._stall(choice)
            case Deed.RESUME | Deed.FORGE | Deed.REPLACE:
                await self._come_back(turn.deed, choice)
            case Deed.FINISH:
                await self._finish_sending()
            case Deed.RESET:
                voice.link.reset()
            case Deed.FREEZE:
                self._reads.clear()
                self._writes.clear()
                await self._rest(_between(FROZEN_S, choice))
            case Deed.LEAVE:
                await self._leave()

    async def _interrupt(self, choice: int) -> None:
        assert self._microphone is not None
        self._ear.reached.discard(Moment.SPEAKING)
        self._microphone.say(self._clips[choice % len(self._clips)][: RATE_HZ * 3 // 2])
        if await self._until(lambda: Moment.SPEAKING in self._ear.reached, 5.0):
            self._heard.counts["spoke over it"] += 1

    async def _babble(self, choice: int) -> None:
        refused = len(self._ear.refused)
        code = await self._voice.babble(choice)
        if code is not None:
            self._expected.add(code)
            await self._until(lambda: False, 10.0)
            self._ear.breach(f"nonsense number {choice} did not end the connection with {code}")
        elif not await self._until(lambda: len(self._ear.refused) > refused, 10.0):
            self._ear.breach(f"nonsense number {choice} was not answered with an error")

    async def _stall(self, choice: int) -> None:
        self._expected |= {None, 1008}  # Who takes nothing for too long is cut off.
        self._reads.clear()
        if self._microphone is not None:  # What is not sent yet has to be taken back then.
            await self._rest(_between(STALLED_S, choice) * 0.7)
            self._microphone.say(self._clips[choice % len(self._clips)][: RATE_HZ * 3 // 2])
        await self._rest(_between(STALLED_S, choice) * 0.3)
        self._reads.set()

    async def _come_back(self, deed: Deed, choice: int) -> None:
        assert self._native is not None
        self._writes.clear()
        self._reader.cancel()
        await asyncio.wait((self._reader,))
        if self._lost is not None:
            self._broken(self._lost)
        if deed is Deed.REPLACE:
            await self._native.replace()
        else:
            (self._voice.link.reset if choice % 2 else self._voice.link.abort)()
            if deed is Deed.FORGE:
                for attempt in islice(REFUSALS, choice % len(REFUSALS) + 1):
                    await self._native.try_to_resume(attempt)
            await asyncio.sleep(_between((0.0, 1.0), choice))
            await self._native.resume(missing=choice % 8)
        self._heard.counts["resumed"] += 1
        self._lost = None
        self._writes.set()
        self._reader = self._tasks.create_task(self._read())

    async def _finish_sending(self) -> None:
        self._expected.add(None)
        self._writes.clear()
        self._voice.link.finish()
        await self._until(lambda: False, 10.0)
        self._ear.breach("10 s after a FIN the connection is still open")

    async def _leave(self) -> None:
        self._ear.doing += ", leaving"
        self._expected |= {None, 1000}
        await self._voice.leave()
        await self._until(lambda: False, 10.0)
        self._ear.breach("10 s after a goodbye the connection is still open")


def _between(bounds: tuple[float, float], choice: int) -> float:
    low, high = bounds
    return low + (high - low) * (choice % 1009) / 1008
