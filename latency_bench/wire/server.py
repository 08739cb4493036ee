"""The server under test: a process of its own, looked at from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

_NO_PID = "the server's process is not known; give it with --pid"
_FAULT = re.compile(r" (ERROR|CRITICAL) ")
_READY = re.compile(r"ready: (http://\S+?)/?\s*$")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """The server did not start, or did not stop; the message carries its last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of a process and its children, in MB (10^6 bytes).

    Attributes:
        rss: resident; what several of the processes share counts once for each.
        pss: resident; what is shared counts in parts.
        peak: the most that was resident, summed over the processes.
    """

    rss: float
    pss: float
    peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a process has of the system now."""

    files: int
    threads: int


@dataclass(slots=True, kw_only=True)
class Watch:
    """What is noticed of a server from its start to its end.

    Attributes:
        faults: lines of its log that tell of an error.
        code: what it ended with; None while it runs.
    """

    faults: list[str] = field(default_factory=list)
    code: int | None = None

    def line(self, text: str) -> None:
        """One line of its log."""
        if text.startswith("Traceback") or _FAULT.search(text):
            self.faults.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server.

    Attributes:
        url: of its realtime endpoint.
        pid: of its process; None for one that is not on this machine or not ours.
        start_s: from the start of the process to its line `ready`; None where somebody else started it.
    """

    url: str
    pid: int | None
    start_s: float | None

    def cpu_s(self) -> float:
        """CPU time that the process and its children have used so far."""
        return sum(_cpu_s(pid) for pid in self._tree())

    def memory(self) -> Memory:
        """What the process and its children hold now."""
        tree = self._tree()
        return Memory(
            rss=sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES for pid in tree) / 1e6,
            pss=sum(_kilobytes(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in tree) * 1024 / 1e6,
            peak=sum(_kilobytes(f"/proc/{pid}/status", "VmHWM:") for pid in tree) * 1024 / 1e6,
        )

    def holdings(self) -> Holdings:
        """Files and threads of the process itself."""
        if self.pid is None:
            raise ServerFailed(_NO_PID)
        proc = Path(f"/proc/{self.pid}")
        return Holdings(files=len(list((proc / "fd").iterdir())), threads=len(list((proc / "task").iterdir())))

    def _tree(self) -> list[int]:
        if self.pid is None:
            raise ServerFailed(_NO_PID)
        parents = {
            int(entry.name): _parent(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal()
        }
        tree = [self.pid]
        for pid in tree:  # grows while it is walked: children of children
            tree += [child for child, parent in parents.items() if parent == pid]
        return tree


@asynccontextmanager
async def running(
    *,
    arguments: Sequence[str] = (),
    ready_s: float = 180.0,
    stop: signal.Signals = signal.SIGINT,
    watch: Watch | None = None,
) -> AsyncIterator[Server]:
    """Start a server of this checkout on a free port; stop it as Ctrl-C would.

    Args:
        arguments: further ones of ``duplex serve``.
        ready_s: longest time to wait for it.
        stop: what asks it to end.
        watch: told of what it logs, and how it ends.

    Raises:
        ServerFailed: it ended before it was ready, was not ready in time, or did not stop within 10 s.
    """
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "duplex", "serve", "--port", "0", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    lines: deque[str] = deque(maxlen=20)
    ready: asyncio.Future[str] = loop.create_future()

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            lines.append(line.decode(errors="replace").rstrip())
            if watch is not None:
                watch.line(lines[-1])
            found = _READY.search(lines[-1])
            if found and not ready.done():
                ready.set_result(found[1])
        if not ready.done():
            ready.set_exception(ServerFailed(f"the server ended before it was ready: {' / '.join(lines)}"))

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            try:
                async with asyncio.timeout(ready_s):
                    base = await ready
            except TimeoutError:
                raise ServerFailed(f"the server was not ready within {ready_s:g} s: {' / '.join(lines)}") from None
            url = base.replace("http", "ws", 1) + "/v1/realtime"
            yield Server(url=url, pid=process.pid, start_s=loop.time() - started_s)
            process.send_signal(stop)
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                raise ServerFailed(f"the server did not stop within 10 s of {stop.name}: {' / '.join(lines)}") from None
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    finally:
        # Where it has ended by itself the news may still be on its way, and killing would take it from the loop.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        if watch is not None:
            watch.code = process.returncode


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _cpu_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _stat(pid: int) -> list[str]:
    """Fields of proc(5) `stat` from the third on: what stands before may contain blanks. Empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _kilobytes(path: str, name: str) -> int:
    return next(int(line.split()[1]) for line in Path(path).read_text().splitlines() if line.startswith(name))
