"""A server in a process of its own, started as a person would, and looked at from outside."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
READY = re.compile(r"ready: (http://\S+/)\n")
COMMAND = (sys.executable, "-m", "duplex", "serve", "--port", "0")


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a process has of the system."""

    files: int
    threads: int


class Process:
    """A running server; made by `serving`.

    Attributes:
        url: as the server has printed it.
        pid: its process.
    """

    def __init__(self, *, popen: subprocess.Popen[str], url: str, log: Path) -> None:
        self.url = url
        self.pid = popen.pid
        self._popen = popen
        self._log = log

    def log(self) -> str:
        """All that it has written on stderr."""
        return self._log.read_text()

    def holdings(self) -> Holdings:
        """Its files and threads now."""
        proc = Path(f"/proc/{self.pid}")
        return Holdings(len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir())))

    def metrics(self) -> dict[str, float]:
        """Value by name and labels, as ``duplex_stage_requests{stage="hear"}``."""
        page = httpx.get(f"{self.url}metrics", trust_env=False).text
        lines = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def left(self) -> dict[str, float]:
        """What its sessions hold; empty when there is none and nothing of any."""
        held = ("duplex_sessions", "duplex_requests", "duplex_connector_payloads", "duplex_connector_bytes")
        return {
            name: value
            for name, value in self.metrics().items()
            if value and (name in held or name.startswith("duplex_stage_requests"))
        }

    async def until(self, true: Callable[[], bool], *, within_s: float = 5.0) -> bool:
        """Wait for something that can be seen of the process only by looking again; False after `within_s`."""
        deadline_s = time.monotonic() + within_s
        while not true():
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(0.05)
        return True

    async def settled(self, before: Holdings) -> None:
        """Wait until no session, request or payload is left, and no file or thread more than `before`."""

        def at_rest() -> bool:
            now = self.holdings()
            return not self.left() and now.files <= before.files and now.threads <= before.threads

        assert await self.until(at_rest, within_s=8), f"left: {self.left()}, {before} became {self.holdings()}"

    def stop(self, *, within_s: float = 10.0) -> int:
        """Ctrl-C; returns the exit code. Does nothing more where it has ended."""
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGINT)
        return self._popen.wait(within_s)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Process]:
    """Start a server on a free port and wait until it is ready; its log is kept in `folder`."""
    log = folder / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*COMMAND, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as popen,
    ):
        try:
            assert popen.stdout is not None
            ready = READY.fullmatch(popen.stdout.readline())
            assert ready, log.read_text()
            yield Process(popen=popen, url=ready[1], log=log)
        finally:
            if popen.poll() is None:
                popen.kill()
