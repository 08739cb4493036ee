"""An engine that dies when its test says so, as one in a process of its own does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duplex.connector.base import Connector, Handle
from duplex.connector.payload import Text
from duplex.engine.base import Sink, StageFailed, StageFinished, StageOutput, StageRequest
from duplex.errors import StageError
from duplex.session.fence import Fence


class Mortal:
    """Says each text again in capitals, when it is told to (`work`), and finishes with its input.

    Attributes:
        had: texts that it was given, by request; of those that are alive.
        submitted: every request that it was ever given.
        may_start: a restart waits for it; `refusal`: what it fails with, if not empty.
        living: set while it lives; `died`: likewise while it does not.
    """

    def __init__(self, connector: Connector, stage: str = "talk") -> None:
        self.stage = stage
        self.had: dict[Fence, list[str]] = {}
        self.submitted: list[Fence] = []
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.refusal = ""
        self.living = asyncio.Event()
        self.attempts: asyncio.Queue[int] = asyncio.Queue()
        self.stops = 0
        self._attempts = 0
        self._connector = connector
        self._sink: Sink | None = None
        self._said: dict[Fence, int] = {}
        self._final: set[Fence] = set()
        self._on_death: Callable[[str], None] | None = None

    def watch(self, on_death: Callable[[str], None]) -> None:
        self._on_death = on_death

    async def start(self, sink: Sink) -> None:
        if self.refusal:
            raise StageError(self.refusal, stage=self.stage)
        self._sink = sink
        self.living.set()

    async def restart(self) -> None:
        assert not self.living.is_set()
        self._attempts += 1
        self.attempts.put_nowait(self._attempts)
        await self.may_start.wait()
        if self.refusal:
            raise OSError(self.refusal)
        self.living.set()

    async def stop(self) -> None:
        self.stops += 1
        self.living.clear()
        self._forget_all()

    def submit(self, request: StageRequest) -> None:
        assert self.living.is_set(), "a request for a dead replica"
        assert request.fence not in self.had
        self.had[request.fence] = []
        self._said[request.fence] = 0
        self.submitted.append(request.fence)

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        assert self.living.is_set(), "input for a dead replica"
        if handle is not None:
            payload = self._connector.take(handle)
            assert isinstance(payload, Text)
            self.had[fence].append(payload.text)
        if final:
            self._final.add(fence)

    def abort(self, fence: Fence) -> None:
        assert self.living.is_set(), "a word to a dead replica"
        self.had.pop(fence, None)

    def work(self) -> None:
        """Say what there is to say of each request."""
        for fence, texts in list(self.had.items()):
            while self._said[fence] < len(texts):
                self.say(fence, texts[self._said[fence]].upper())
                self._said[fence] += 1
            if fence in self._final:
                del self.had[fence]
                assert self._sink is not None
                self._sink(StageFinished(fence=fence, stage=self.stage, output_tokens=len(texts)))

    def say(self, fence: Fence, text: str) -> None:
        assert self._sink is not None
        handle = self._connector.put(fence, Text(text=text, start=0))
        self._sink(StageOutput(fence=fence, stage=self.stage, handle=handle))

    def kill(self, reason: str = "signal 9") -> None:
        """As a host does: its requests fail at once, and whoever watches is told."""
        assert self._sink is not None
        self.living.clear()
        error = StageError(f"the engine process of stage {self.stage} ended ({reason})", stage=self.stage)
        for fence in self.had:
            self._sink(StageFailed(fence=fence, stage=self.stage, error=error))
        self._forget_all()
        assert self._on_death is not None
        self._on_death(reason)

    def _forget_all(self) -> None:
        self.had.clear()
        self._said.clear()
        self._final.clear()
