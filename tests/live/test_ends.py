"""How a server ends, and how it says that it cannot begin."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from duplex.audio.pcm import Samples
from tests.live.caller import calling
from tests.live.process import COMMAND, ROOT, serving

pytestmark = [pytest.mark.anyio, pytest.mark.live]


@pytest.mark.models
async def test_ctrl_c_ends_conversations_in_order(spoken: dict[str, Samples], tmp_path: Path) -> None:
    """Four talk, one of them into its answer, and two more have only begun to connect."""
    with serving(tmp_path) as server:
        host, port = server.url.removeprefix("http://").rstrip("/").split(":")
        async with AsyncExitStack() as stack:
            for beginning in (b"", b"GET /v1/realtime HTTP/1.1\r\n"):
                half_open = stack.enter_context(socket.create_connection((host, int(port))))
                half_open.sendall(beginning)
            callers = [await stack.enter_async_context(calling(server.url, microphone=True)) for _ in range(4)]
            for caller in callers:
                caller.say(spoken["guitar"])
            await callers[0].write("Tell me a long story about a dog who wanted to see the world.")
            await callers[0].connection.response.create()
            for caller in callers:
                await caller.until("input_audio_buffer.speech_started")
            stopped_s = time.monotonic()
            code = await asyncio.to_thread(server.stop)
            assert code == 0, server.log()
            assert time.monotonic() - stopped_s < 4
            async with asyncio.timeout(2):
                for caller in callers:
                    await caller.over.wait()
            for caller in callers:
                assert caller.events[-1]["type"] == "error"
                assert caller.events[-1]["error"]["code"] == "session_shutdown"
                assert caller.lost is not None
                assert caller.lost.rcvd is not None
                assert caller.lost.rcvd.code == 1001
    log = server.log()
    assert "Traceback" not in log
    assert " ERROR " not in log
    assert log.endswith("stopped\n")


@pytest.mark.models
def test_ctrl_c_while_it_is_starting(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            deadline = time.monotonic() + 20
            while "loading the models" not in log.read_text():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text()
    assert out == ""
    assert "Traceback" not in log.read_text()


def refused(*arguments: str) -> str:
    """What a server says that does not start; it has to be one sentence."""
    command = [sys.executable, "-m", "duplex", "serve", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=40, check=False)
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    lines = [line for line in ended.stderr.splitlines() if " INFO " not in line]
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("duplex: ")
    return lines[0]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", str(port))
    assert f"127.0.0.1:{port}" in said
    assert "--port" in said


def test_models_that_are_absent(tmp_path: Path) -> None:
    assert "duplex models fetch" in refused("--port", "0", "--cache-dir", str(tmp_path))
    assert str(tmp_path) in refused("--port", "0", "--models-dir", str(tmp_path))
