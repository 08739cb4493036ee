"""A conversation that is going on: a microphone that plays, a reader, and what became of it; in no protocol."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from duplex.audio.pcm import Samples
from duplex.client.conversation import Conversation
from duplex.client.observer import Observer
from duplex.client.player import RATE_HZ, Microphone
from duplex.client.playout import Playout
from duplex.errors import TalkError

Do = Callable[[], Awaitable[None]]


class Dialogue(ABC):
    """One open conversation. Its clock is the event loop's.

    Args:
        room_dbfs: level of the room's noise.
        observer: told of the words.

    Attributes:
        microphone, playout, conversation: as they stand.
        started_s: when the microphone began.
        progress: number of events received.
    """

    def __init__(self, *, room_dbfs: float, observer: Observer | None) -> None:
        self.microphone = Microphone(room_dbfs=room_dbfs)
        self.playout = Playout(rate_hz=RATE_HZ)
        self.conversation = Conversation(microphone=self.microphone, playout=self.playout, observer=observer)
        self.started_s = asyncio.get_running_loop().time()
        self.progress = 0
        self._changed = asyncio.Event()
        self._lost: TalkError | None = None

    @abstractmethod
    async def append(self, samples: Samples) -> None:
        """Send int16 [n] of the microphone at 24 kHz. Raises TalkError where the connection is gone."""

    @abstractmethod
    async def answer(self) -> None:
        """The user's turn ends here, and is to be answered. Raises TalkError where the connection is gone."""

    @abstractmethod
    async def listen(self) -> None:
        """Take what the server says, calling `news` for each thing. Raises TalkError once there is nothing more."""

    @property
    def now(self) -> float:
        """Seconds on the clock of every time in this conversation."""
        return asyncio.get_running_loop().time()

    def say(self, samples: Samples) -> int:
        """Speak int16 [n] at 24 kHz from the next frame on; returns the position of its first sample."""
        return self.microphone.say(samples)

    async def until(self, ready: Callable[[], bool], *, timeout_s: float) -> bool:
        """Wait until `ready` says so; it is asked after each event and each frame. False after `timeout_s`.

        Raises:
            TalkError: the connection is gone.
        """
        deadline_s = self.now + timeout_s
        while not ready():
            if self._lost is not None:
                raise self._lost
            if self.now >= deadline_s:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return True

    async def pause(self, seconds: float) -> None:
        """Let time pass. Raises TalkError where the connection is gone."""
        await self.until(lambda: False, timeout_s=seconds)

    def news(self) -> None:
        """One more event has been taken."""
        self.progress += 1
        self._changed.set()

    async def play(self) -> None:
        """Play the microphone for ever. Raises TalkError once the connection is gone."""
        self.started_s = self.now
        clock = asyncio.get_running_loop().time
        await self.microphone.play(self.append, clock=clock, sleep=asyncio.sleep, played=self._changed.set)

    async def unless_lost(self, do: Do) -> None:
        """Do it; a loss of the connection is noted, and raised to whoever waits."""
        try:
            await do()
        except TalkError as error:
            self._lost = self._lost or error
            self._changed.set()


D = TypeVar("D", bound=Dialogue)


@asynccontextmanager
async def going(dialogue: D, *others: Do, begin: Do | None = None) -> AsyncIterator[D]:
    """Listen, and once `begin` is through let the microphone play, for the length of the block.

    Args:
        others: what else goes on meanwhile.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(dialogue.unless_lost(do)) for do in (dialogue.listen, *others)]
            if begin is not None:
                await begin()
            running.append(tasks.create_task(dialogue.unless_lost(dialogue.play)))
            yield dialogue
            for task in running:
                task.cancel()
    except BaseExceptionGroup as group:
        # The tasks report their losses to the dialogue, so what is in the group came from the body alone.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
