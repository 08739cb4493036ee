"""Engines in a process of their own: the server's end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from duplex.engine.arenas import Arenas
from duplex.engine.base import StageFailed
from duplex.engine.life import HostSpec, Life
from duplex.engine.remote import RemoteEngine
from duplex.engine.wire import Failed, Finished, Forget, Output, Retire, Spent, ToHost, ToProcess
from duplex.errors import StageError
from duplex.session.fence import Fence

_log = logging.getLogger(__name__)


class EngineHost:
    """One process with the engines of one stage or of several. All of it belongs to the event loop, and nothing waits
    for the process but `start` and `stop`.

    The process begins with the first of its engines that is started, and ends with the last that is stopped. Where it
    ends otherwise (it crashed, was killed, was silent for too long, said nonsense or did not read), every request that
    it had fails at once with `EngineDied`. Nobody starts it again unasked: `start` may be called again, or `restart` of
    one of its engines, which waits until the former process is gone.

    Args:
        name: for people, and before each line that the process prints.
        stages: that it must serve, no more and no fewer.
        spec: what it is to be.
        arenas: of all processes of this server.
        clock: seconds, monotonic; the loop's own.
        on_death: told why it has ended by itself, after those who `watch` its engines and before their requests fail.

    Attributes:
        engines: by stage.
        deaths: how often it has ended by itself.
    """

    def __init__(
        self,
        *,
        name: str,
        stages: Sequence[str],
        spec: HostSpec,
        arenas: Arenas,
        clock: Callable[[], float],
        on_death: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.deaths = 0
        self._spec = spec
        self._arenas = arenas
        self._clock = clock
        self._on_death = on_death
        self._life: Life | None = None
        self._turn = asyncio.Lock()
        self._remotes = {
            stage: RemoteEngine(
                stage=stage, process=self, connector=arenas.connector, on_start=self.start, on_stop=self._release
            )
            for stage in stages
        }
        self.engines: Mapping[str, RemoteEngine] = self._remotes

    @property
    def running(self) -> bool:
        """Whether the process is loaded and lives, as far as is known."""
        return self._life is not None and self._life.running

    @property
    def pid(self) -> int | None:
        """Of the process, or of the last one."""
        return self._life.pid if self._life is not None else None

    async def start(self) -> None:
        """Have the process run: does nothing where it does. Raises StageError, with its own reason, where it cannot."""
        async with self._turn:
            if self.running:
                return
            if self._life is not None and not await self._life.gone():
                raise StageError(
                    f"process {self.pid} was killed and does not end: see what it waits for", stage=self.name
                )
            life = self._life = Life(
                name=self.name, spec=self._spec, arenas=self._arenas, owner=self, clock=self._clock
            )
            await life.begin()
            if set(life.stages) != self._remotes.keys():
                await life.stop()
                serves = f"serves {', '.join(sorted(life.stages)) or 'nothing'}"
                wanted = f"is to serve {', '.join(sorted(self._remotes))}"
                raise StageError(f"{self._spec.engines} {serves} and {wanted}: change one of them", stage=self.name)

    async def stop(self) -> None:
        """End the process in order, or at once where it is loading; what still lives in it fails."""
        if self._life is not None and not self._life.running:
            self._life.give_up()
        async with self._turn:
            if self._life is not None:
                await self._life.stop()
            for remote in self._remotes.values():
                remote.fail(f"the engine process of stage {remote.stage} was stopped")

    async def _release(self) -> None:
        if not any(remote.started for remote in self._remotes.values()):
            await self.stop()

    def send(self, message: ToProcess) -> None:
        """Say something to the process, where it runs. Raises ControlError where it is too long."""
        if self._life is not None and self._life.running:
            self._life.send(message)

    def retire(self, fence: Fence) -> None:
        """`Connector.retire`, in the process."""
        self.send(Retire(fence=fence))

    def forget(self, session_id: str) -> None:
        """A session is over: nothing is kept of it in the process, nor counted here."""
        self.send(Forget(session_id=session_id))
        for remote in self._remotes.values():
            remote.forget(session_id)

    # What follows is called by the life.

    def said(self, life: Life, message: ToHost) -> None:
        """The process says something; it is of a stage that it serves, or else ignored."""
        match message:
            case Output(output=event) | Finished(finished=event):
                if (remote := self._remotes.get(event.stage)) is not None:
                    remote.said(event)
            case Failed(stage=stage, fence=fence, reason=reason):
                if (remote := self._remotes.get(stage)) is not None:
                    remote.said(StageFailed(fence=fence, stage=stage, error=StageError(reason, stage=stage)))
            case Spent(stage=stage, session_id=session_id, seconds=seconds):
                if (remote := self._remotes.get(stage)) is not None:
                    remote.has_spent(session_id, seconds)
            case _:
                pass

    def ended(self, life: Life, reason: str) -> None:
        """The process is gone by itself."""
        self.deaths += 1
        _log.error("%s: the engine process %s", self.name, reason)
        told = {remote: f"the engine process of stage {remote.stage} {reason}" for remote in self._remotes.values()}
        try:
            for remote, sentence in told.items():
                remote.tell_death(sentence)
            if self._on_death is not None:
                self._on_death(f"the engine process {self.name} {reason}")
        finally:
            for remote, sentence in told.items():
                remote.fail(sentence)
