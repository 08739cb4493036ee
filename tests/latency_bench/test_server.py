"""Looking at a process from outside."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from latency_bench.wire.server import Server, ServerFailed, running


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Puts a package `duplex` in front of the real one, in the child process only."""
    package = tmp_path / "duplex"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(textwrap.dedent(body))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_a_server_is_awaited_and_stopped_as_by_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        tmp_path,
        monkeypatch,
        """
        import sys, threading
        sum(range(3_000_000))  # enough for the clock of proc(5), which ticks every 10 ms
        print("loading", sys.argv[1:], flush=True)
        print("ready: http://127.0.0.1:4321/", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            open("stopped", "w").close()
        """,
    )

    async def use() -> Server:
        async with running() as server:
            assert server.cpu_s() > 0
            memory = server.memory()
            assert 0 < memory.pss <= memory.rss <= memory.peak * 1.01
            return server

    server = asyncio.run(use())
    assert server.url == "ws://127.0.0.1:4321/v1/realtime"
    assert server.start_s is not None
    assert 0 < server.start_s < 10
    assert (tmp_path / "stopped").exists()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("print('no model here'); raise SystemExit(1)", "ended before it was ready: no model here"),
        ("import threading; threading.Event().wait()", "was not ready within 1 s"),
    ],
)
def test_a_server_that_does_not_start_is_told_with_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, sentence: str
) -> None:
    stand_in(tmp_path, monkeypatch, body)

    async def use() -> None:
        async with running(ready_s=1.0):
            pass

    with pytest.raises(ServerFailed, match=sentence):
        asyncio.run(use())


def test_children_count() -> None:
    busy = "x = 0\nwhile x < 3_000_000: x += 1\nprint(1, flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it has counted
        alone = Server(url="", pid=child.pid, start_s=None)
        both = Server(url="", pid=os.getpid(), start_s=None)
        assert alone.cpu_s() >= 0.03
        assert both.memory().rss > alone.memory().rss > 1
        child.communicate(b"\n")


def test_a_server_whose_process_is_unknown_cannot_be_looked_at() -> None:
    with pytest.raises(ServerFailed, match="give it with --pid"):
        Server(url="", pid=None, start_s=None).cpu_s()
