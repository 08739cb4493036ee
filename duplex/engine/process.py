"""One spawned process: its start, what it prints, and its end. Callbacks on the loop, no task and no thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from duplex.engine.lines import Lines
from duplex.errors import StageError

_log = logging.getLogger(__name__)

LINGER_S = 1.0
"""How long what a dead process's children still print is listened to."""

_STDOUT, _STDERR = 1, 2


class ChildProcess(asyncio.SubprocessProtocol):
    """A Python module in a process and a session of its own: a terminal's Ctrl-C does not reach it.

    Each line that it prints, native code's own included, is logged with its label: stdout as information, stderr as a
    warning.

    Args:
        label: before each line.
        on_exit: told once that it has ended; `how` says how. Not told where it never began.
    """

    def __init__(self, *, label: str, on_exit: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._label = label
        self._on_exit = on_exit
        self._lines = {_STDOUT: Lines(), _STDERR: Lines()}
        self._transport: asyncio.SubprocessTransport | None = None
        self._gone = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None

    async def spawn(self, module: str, arguments: Sequence[str], *, fd: int, environment: Mapping[str, str]) -> None:
        """Start it with one descriptor of ours; what it imports is what this process would.

        `environment` is added to what is inherited by env(1), so that nothing here reads it.

        Raises:
            StageError: the system has no room for a process.
        """
        path = os.pathsep.join(place or os.getcwd() for place in sys.path)
        added = [f"{name}={value}" for name, value in {"PYTHONPATH": path, **environment}.items()]
        python = [sys.executable, "-P", "-u", "-X", "faulthandler", "-m", module, *arguments]
        try:
            await self._loop.subprocess_exec(
                lambda: self,
                "/usr/bin/env",
                *added,
                *python,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=(fd,),
                start_new_session=True,
            )
        except OSError as error:
            raise StageError(f"no process can be started ({error.strerror})", stage=self._label) from error

    @property
    def pid(self) -> int | None:
        """None before it began."""
        return self._transport.get_pid() if self._transport is not None else None

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the signal where one ended it."""
        return self._transport.get_returncode() if self._transport is not None else None

    @property
    def how(self) -> str:
        """How it ended, for people."""
        code = self.returncode
        return "not yet" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"

    def signal(self, number: signal.Signals) -> None:
        """To it and all processes that it started; to nobody once it is reaped: its number may be another's then."""
        if self.pid is not None and self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    async def gone(self, within_s: float | None = None) -> bool:
        """Whether it has ended, been reaped and read to its end within that time; None waits as long as it takes."""
        if self._transport is not None:
            try:
                async with asyncio.timeout(within_s):
                    await self._gone.wait()
            except TimeoutError:
                return False
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)  # uvloop's own is no subclass

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        self._print(fd, self._lines[fd].feed(data, self._loop.time()))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._lines:
            self._print(fd, self._lines[fd].flush())

    def process_exited(self) -> None:
        assert self._transport is not None
        # Its pipes may be held open by a process that it started.
        self._linger = self._loop.call_later(LINGER_S, self._transport.close)
        self._on_exit()

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._transport is not None
        if self._linger is not None:
            self._linger.cancel()
        self._transport.close()
        self._gone.set()

    def _print(self, fd: int, lines: Sequence[str]) -> None:
        for line in lines:
            _log.log(logging.WARNING if fd == _STDERR else logging.INFO, "%s: %s", self._label, line)
