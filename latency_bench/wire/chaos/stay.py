"""A connection while it lasts: what goes on in the background, and waiting for what it brings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from duplex.audio.pcm import Samples
from duplex.client.player import Microphone
from duplex.errors import TalkError
from latency_bench.wire.chaos.ear import Heard
from latency_bench.wire.chaos.voice import Voice
from latency_bench.wire.link import LinkLost

TOLD_S = 5.0
"""In which whoever comes is let in, or told a number."""


class Over(Exception):
    """The visit ends here, as planned."""


class Stay:
    """One client's connection, or several of the same session.

    Args:
        voice: not connected yet.
        heard: where everything is written down.
        over: set when all shall come to an end.
    """

    def __init__(self, *, voice: Voice, heard: Heard, over: asyncio.Event) -> None:
        self._voice = voice
        self._ear = voice.ear
        self._heard = heard
        self._over = over
        self._lost: LinkLost | None = None
        self._expected: set[int | None] = set()
        self._reads, self._writes = asyncio.Event(), asyncio.Event()
        self._reads.set()
        self._writes.set()
        self._changed = asyncio.Event()

    # Waiting ----------------------------------------------------------------------------------

    async def _until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something that a message brings; False after `timeout_s`. Raises Over where the link is lost."""
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
        raise Over

    async def _rest(self, seconds: float) -> None:
        """Let time pass, or the end come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    async def _enter(self, patience_s: float) -> None:
        """Through the queue, or out of it. Raises Over where it is not let in."""
        voice, heard = self._voice, self._heard
        self._expected.add(1013)  # No room in the queue either, or waited for too long.
        if not await self._until(lambda: voice.begun or voice.queued is not None, TOLD_S):
            self._ear.breach(f"neither let in nor told a number in the queue within {TOLD_S:g} s")
            raise Over
        if voice.queued is not None:
            heard.counts["queued"] += 1
        if not await self._until(lambda: voice.begun, patience_s):
            heard.counts["left the queue"] += 1
            raise Over
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
