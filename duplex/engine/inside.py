"""What runs in an engine process: its engines, on an event loop of their own, and their talk with the host."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import uvloop

from duplex.engine.arenas import ArenaConnector
from duplex.engine.base import Engine, StageEvent, StageFailed, StageFinished, StageOutput
from duplex.engine.channel import Channel, close_fds
from duplex.engine.wire import (
    Abort,
    AddPeer,
    Beat,
    DropPeer,
    Failed,
    Finished,
    Forget,
    Load,
    LoadFailed,
    Output,
    Ready,
    Retire,
    Spent,
    Stop,
    Submit,
    ToProcess,
    Update,
    cut,
    decode_for_process,
)
from duplex.errors import ControlError, DuplexError, StageError, StateError

MOST_WAITING = 65536
"""Messages that may wait for the host, whose loop may be busy for a while; one more, and this process ends."""

_DESERTED = 4
"""Exit code: the host has closed the socket, or does not read it."""


@runtime_checkable
class Metered(Protocol):
    """An engine that counts what sessions cost it."""

    @property
    def active(self) -> int:
        """Requests whose worker is not closed."""

    def spent(self, session_id: str) -> float:
        """CPU seconds for a session."""

    def forget(self, session_id: str) -> None:
        """A session is over."""


class Inside:
    """The engines of this process, and what the host has asked of them. Belongs to the loop, but for `_say`.

    Args:
        end: the control socket.
    """

    def __init__(self, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._engines: dict[str, Engine] = {}
        self._connector: ArenaConnector | None = None
        self._told: dict[tuple[str, str], float] = {}
        """By stage and session: what the host knows of its cost."""
        self._beat_s = 1.0
        self._first: asyncio.Future[tuple[Load, Sequence[int]]] = loop.create_future()
        self._end: asyncio.Future[None] = loop.create_future()
        self._channel: Channel[ToProcess] = Channel(
            end=end,
            decode=decode_for_process,
            on_message=self._performed,
            on_end=_desert,
            most_waiting=MOST_WAITING,
        )

    async def run(self) -> None:
        """Load, serve until told to stop, stop the engines. Raises whatever keeps it from that."""
        try:
            await self._serve()
        finally:
            self._channel.close()

    async def _serve(self) -> None:
        load, fds = await self._first
        try:
            await self._load(load, fds)
        except BaseException as error:
            # Not the user's words: nobody has said any yet.
            reason = str(error) if isinstance(error, DuplexError) else f"{type(error).__name__}: {error}"
            self._channel.send(LoadFailed(reason=cut(reason)))
            raise
        self._beat()
        await self._end
        for engine in reversed(self._engines.values()):
            await engine.stop()
        if self._connector is not None:
            self._connector.close()

    async def _load(self, load: Load, fds: Sequence[int]) -> None:
        self._beat_s = load.beat_s
        if len(fds) != 1:
            raise ControlError("the first message has no arena beside it")
        connector = self._connector = _named(load.connector, load.name)(load.number, load.arena_bytes)
        connector.add_peer(load.peer, fds[0], load.peer_bytes)
        close_fds(fds)
        engines: Mapping[str, Engine] = _named(load.engines, load.name)(connector, load.options)
        self._engines = dict(engines)
        for engine in self._engines.values():
            await engine.start(self._say)
        # What was loaded stays: a collection that looks through all of it holds this loop for as long.
        gc.collect()
        gc.freeze()
        self._channel.send(Ready(stages=tuple(self._engines), arena_bytes=connector.arena_bytes), (connector.fd,))

    def _performed(self, message: ToProcess, fds: Sequence[int]) -> None:
        """Perform a message. What goes wrong with one request is its own; anything else ends the process: its host
        then fails what it had, which is better than requests that hear nothing."""
        try:
            self._perform(message, fds)
        except BaseException as error:
            for awaited in (self._first, self._end):
                if not awaited.done():
                    awaited.set_exception(error)
            raise
        finally:
            close_fds(fds if not isinstance(message, Load) else ())

    def _perform(self, message: ToProcess, fds: Sequence[int]) -> None:
        connector = self._connector
        match message:
            case Load() if not self._first.done():
                self._first.set_result((message, fds))
            case Stop():
                if not self._end.done():
                    self._end.set_result(None)
            case _ if connector is None:
                raise ControlError(f"{type(message).__name__} came before anything was loaded")
            case Submit(request=request):
                try:
                    self._engine(request.stage).submit(request)
                except StateError as error:
                    self._channel.send(Failed(stage=request.stage, fence=request.fence, reason=cut(str(error))))
                self._told.setdefault((request.stage, request.fence.session_id), 0.0)
            case Update(stage=stage, fence=fence, handle=handle, final=final):
                self._engine(stage).update(fence, handle, final=final)
            case Abort(stage=stage, fence=fence):
                self._engine(stage).abort(fence)
            case Retire(fence=fence):
                connector.retire(fence)
            case Forget(session_id=session_id):
                connector.forget(session_id)
                self._forget(session_id)
            case AddPeer(number=number, arena_bytes=arena_bytes) if len(fds) == 1:
                connector.add_peer(number, fds[0], arena_bytes)
            case DropPeer(number=number):
                connector.drop_peer(number)
            case _:
                raise ControlError(f"{type(message).__name__} came out of turn")

    def _engine(self, stage: str) -> Engine:
        try:
            return self._engines[stage]
        except KeyError:
            raise ControlError(f"there is no stage {stage} here") from None

    def _say(self, event: StageEvent) -> None:
        """The engines' sink; called from any thread."""
        match event:
            case StageOutput():
                self._channel.send(Output(output=event))
            case StageFinished():
                self._channel.send(Finished(finished=event))
            case StageFailed(fence=fence, stage=stage, error=error):
                self._channel.send(Failed(stage=stage, fence=fence, reason=cut(error.message)))

    def _forget(self, session_id: str) -> None:
        for stage, engine in self._engines.items():
            self._told.pop((stage, session_id), None)
            if isinstance(engine, Metered):
                engine.forget(session_id)

    def _beat(self) -> None:
        """Tell that the loop runs, and what has changed; where the host does not read now, it will hear later."""
        if self._end.done():
            return
        if not self._channel.waiting:
            metered = {stage: engine for stage, engine in self._engines.items() if isinstance(engine, Metered)}
            for stage, session_id in self._told:
                if (engine := metered.get(stage)) is not None:
                    seconds = engine.spent(session_id)
                    if seconds != self._told[stage, session_id]:
                        self._told[stage, session_id] = seconds
                        self._channel.send(Spent(stage=stage, session_id=session_id, seconds=seconds))
            active = {stage: engine.active for stage, engine in metered.items()}
            self._channel.send(Beat(active=active))
        self._loop.call_later(self._beat_s, self._beat)


def _desert(reason: str) -> None:
    """Nobody is there to work for: at once, whatever native code this process is in."""
    print(f"the server {reason}", file=sys.stderr)
    os._exit(_DESERTED)


def _named(name: str, host: str) -> Any:
    """A function by its ``module:function``. Raises StageError where there is none; an import's own errors come out."""
    module, _, function = name.partition(":")
    found = getattr(importlib.import_module(module), function, None) if function else None
    if not callable(found):
        raise StageError(f"`{name}` names no function; write it as module:function", stage=host)
    return found


def serve(end: socket.socket) -> int:
    """Be the engine process at the other end of `end`; returns the exit code."""
    # stderr, which the host logs as warnings: what is worth less stays here.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(end))
    return 0


async def _serve(end: socket.socket) -> None:
    await Inside(end).run()
