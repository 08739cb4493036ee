"""One visit of a client: its turns, and what it does in the middle of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from duplex.audio.pcm import Samples
from duplex.client.player import RATE_HZ, Microphone
from duplex.errors import TalkError
from latency_bench.wire.chaos.ear import Heard, NativeEar, RealtimeEar
from latency_bench.wire.chaos.native import REFUSALS, NativeVoice
from latency_bench.wire.chaos.plan import LAST, Deed, Dialect, Moment, TurnPlan, VisitPlan
from latency_bench.wire.chaos.realtime import RealtimeVoice
from latency_bench.wire.chaos.stay import Over, Stay
from latency_bench.wire.link import LinkLost, LinkRefused

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


class Visit(Stay):
    """One stay, from the connection to the goodbye.

    Args:
        plan: of it.
        name: of the client, for sentences.
        clips: what it can say, int16 [n] at 24 kHz each.
        heard, over: as in `Stay`; a visit under way ends after its turn.
    """

    def __init__(
        self, *, plan: VisitPlan, name: str, clips: Sequence[Samples], heard: Heard, over: asyncio.Event
    ) -> None:
        native = NativeVoice(ear=NativeEar(heard=heard, name=name)) if plan.dialect is Dialect.NATIVE else None
        super().__init__(voice=native or RealtimeVoice(ear=RealtimeEar(heard=heard, name=name)), heard=heard, over=over)
        self._plan = plan
        self._clips = clips
        self._native = native
        self._microphone: Microphone | None = None
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
                with suppress(Over):
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
            await self._enter(self._plan.patience_s if self._plan.patience_s is not None else QUEUE_S)
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
            raise Over
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
