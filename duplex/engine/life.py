"""One life of an engine process: from its spawning until nothing of it is left. A host has one after the other."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from duplex.engine.arenas import Arenas
from duplex.engine.channel import Channel, close_fds
from duplex.engine.process import ChildProcess
from duplex.engine.pulse import Pulse
from duplex.engine.wire import Load, LoadFailed, Ready, Stop, ToHost, ToProcess, decode_for_host
from duplex.errors import ControlError, DuplexError, StageError

EXIT_S = 1.0
"""How long, after its socket has closed, a process may take to say how it ended."""

REAP_S = 10.0
"""How long a killed process is waited for; one that a driver holds may never end."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """What a process is to be.

    Attributes:
        engines: ``module:function`` in the process; called as ``function(connector, options)``,
            returns engines by stage.
        connector: ``module:function`` in the process; called as ``function(number, arena_bytes)``.
        options: for `engines`: what msgpack can say, a few kilobytes.
        arena_bytes: of the process's own arena.
        threads: of numerical libraries that ask the environment; None leaves it to them.
        environment: further variables that libraries ask when they are loaded.
        cpus: cores that the process may run on; empty for all that this one may.
        load_s: seconds that loading may take.
        beat_s: seconds between two beats of the process.
        silence_s: seconds without a word after which it is killed.
        grace_s: seconds that a stop in order may take; then comes SIGTERM, and after `term_s` SIGKILL.
        term_s: see above.
        most_waiting: messages that may wait for it to read; one more, and it is stuck and killed.
    """

    engines: str
    connector: str
    options: dict[str, Any] = field(default_factory=dict)
    arena_bytes: int = 64 << 20
    threads: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    load_s: float = 120.0
    beat_s: float = 0.5
    silence_s: float = 3.0
    grace_s: float = 5.0
    term_s: float = 1.0
    most_waiting: int = 4096


class Owner(Protocol):
    """Whoever has the life: told what the process says while it runs, and once why it does no more."""

    def said(self, life: Life, message: ToHost) -> None: ...

    def ended(self, life: Life, reason: str) -> None: ...


class Life:
    """See the module. What comes late from a life that is over reaches nobody: its socket is closed with it.

    Args:
        name: of the host.
        arenas: gives the number, and is told of the arena.
        owner: see there; `ended` comes once, for a life that was `running` and was not told to stop.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        *,
        name: str,
        spec: HostSpec,
        arenas: Arenas,
        owner: Owner,
        clock: Callable[[], float],
    ) -> None:
        self.running = False
        self.stages: tuple[str, ...] = ()
        self._name = name
        self._spec = spec
        self._arenas = arenas
        self._owner = owner
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._process = ChildProcess(label=name, on_exit=self._exited)
        self._loaded: asyncio.Future[str | None] = self._loop.create_future()
        """Resolved with why it cannot run, or None."""
        self._channel: Channel[ToHost] | None = None
        self._number: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pulse = Pulse(silence_s=spec.silence_s, now=clock())
        self._over = self._stopping = False

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def begin(self) -> None:
        """Spawn, and load. Raises StageError where that fails; then nothing of it is left, as after a cancellation."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                ours.setblocking(False)
                self._channel = Channel(
                    end=ours,
                    decode=decode_for_host,
                    on_message=self._said,
                    on_end=self._closed,
                    most_waiting=self._spec.most_waiting,
                )
                self._number = self._arenas.number(self._name)
                self._load()
                await self._spawn(theirs)
            async with asyncio.timeout(self._spec.load_s):
                reason = await self._loaded
            if reason is not None:
                await self._process.gone(self._spec.term_s)  # It may be printing what it knows.
        except TimeoutError:
            reason = f"was not loaded within {self._spec.load_s:g} s"
        except OSError as error:
            reason = f"has no control socket ({error.strerror})"
        except ControlError as error:
            reason = f"cannot be told what to load ({error})"
        except BaseException:
            await self._bury("was given up")
            raise
        if reason is not None:
            await self._bury(reason)
            raise StageError(f"the engine process {reason}", stage=self._name)

    def _load(self) -> None:
        ours = self._arenas.connector
        assert self._number is not None
        load = Load(
            name=self._name,
            engines=self._spec.engines,
            connector=self._spec.connector,
            options=self._spec.options,
            number=self._number,
            arena_bytes=self._spec.arena_bytes,
            peer=ours.number,
            peer_bytes=ours.arena_bytes,
            beat_s=self._spec.beat_s,
        )
        self.send(load, (ours.fd,))

    async def _spawn(self, theirs: socket.socket) -> None:
        arguments = [f"--fd={theirs.fileno()}", f"--parent={os.getpid()}", f"--name={self._name}"]
        if self._spec.cpus:
            arguments.append(f"--cpus={','.join(map(str, self._spec.cpus))}")
        threads = self._spec.threads
        limits = dict.fromkeys(_THREADS, str(threads)) if threads is not None else {}
        await self._process.spawn(
            "duplex.engine.child", arguments, fd=theirs.fileno(), environment={**limits, **self._spec.environment}
        )

    def send(self, message: ToProcess, fds: Sequence[int] = ()) -> None:
        """Say something to the process; after its end to nobody. Raises ControlError where it is too long."""
        if self._channel is not None:
            self._channel.send(message, fds)

    def _said(self, message: ToHost, fds: Sequence[int]) -> None:
        self._pulse.beat(self._clock())
        match message:
            case Ready(stages=stages, arena_bytes=arena_bytes) if len(fds) == 1 and not self._loaded.done():
                self._ready(stages, fds[0], arena_bytes)
            case LoadFailed(reason=reason) if not self._loaded.done():
                close_fds(fds)
                self._loaded.set_result(f"cannot load its engines: {reason}")
            case _ if fds or not self.running or isinstance(message, (Ready, LoadFailed)):
                close_fds(fds)
                self._over_with(f"said {type(message).__name__} out of turn")
            case _:
                self._owner.said(self, message)

    def _ready(self, stages: tuple[str, ...], fd: int, arena_bytes: int) -> None:
        assert self._number is not None
        try:
            self._arenas.join(self._number, fd, arena_bytes, self.send)
        except (DuplexError, OSError) as error:
            close_fds((fd,))
            self._over_with(f"has no arena that can be mapped ({error})")
            return
        self.stages = stages
        self.running = True
        self._timer = self._loop.call_later(self._spec.silence_s, self._listen)
        self._loaded.set_result(None)

    def _listen(self) -> None:
        """The time is up that the process may be silent, if it still was."""
        assert self._channel is not None
        self._channel.read()  # This process may have been the one that stood still.
        if self._over or self._stopping:
            return
        if self._pulse.is_over(self._clock()):
            self._over_with(f"has said nothing for {self._spec.silence_s:g} s and was killed")
        else:
            self._timer = self._loop.call_later(max(0.0, self._pulse.deadline - self._clock()), self._listen)

    def _closed(self, reason: str) -> None:
        """No more will come over the socket. A process that dies closes it, and a moment later it is known how."""
        if self._stopping:
            return
        if self._process.pid is None or self._process.returncode is not None or "closed" not in reason:
            self._over_with(reason)
        else:
            self._cancel_timer()
            self._timer = self._loop.call_later(EXIT_S, self._over_with, reason)

    def _exited(self) -> None:
        if self._channel is not None and not self._over:
            self._channel.read(self._spec.most_waiting)  # What it said before counts.
        self._over_with(f"ended ({self._process.how})")
        self._give_back()

    def _over_with(self, reason: str) -> None:
        """The end, whatever came first: nothing is heard of the process any more, it is killed, its arena is gone."""
        if self._over:
            return
        self._over = True
        told, self.running = self.running and not self._stopping, False
        self._cancel_timer()
        if self._channel is not None:
            self._channel.close()
        self._process.signal(signal.SIGKILL)
        if self._process.pid is None:
            self._give_back()
        if not self._loaded.done():
            self._loaded.set_result(reason)
        if told:
            self._owner.ended(self, reason)

    def _give_back(self) -> None:
        """Its arena is gone, once it can neither read nor write any more: what it was reading is used anew from now."""
        number, self._number = self._number, None
        if number is not None:
            self._arenas.give_back(number)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def stop(self) -> None:
        """End in order: the engines stop, the process exits; one that will not is terminated, then killed."""
        if self.running and not self._stopping:
            self._stopping = True
            self._cancel_timer()
            self.send(Stop())
            if not await self._process.gone(self._spec.grace_s):
                self._process.signal(signal.SIGTERM)
                await self._process.gone(self._spec.term_s)
        await self._bury("was stopped")

    def give_up(self) -> None:
        """End at once, without order."""
        self._over_with("was stopped")

    async def _bury(self, reason: str) -> None:
        self._over_with(reason)
        await self.gone()

    async def gone(self) -> bool:
        """Whether nothing of a life that is over is left. The kernel may keep a killed process for a while."""
        return await self._process.gone(REAP_S)
