"""One real server for all tests of this folder, and proof after each that nothing of it was left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from duplex.audio.pcm import Samples
from latency_bench.clips import Clip, load
from tests.live.caller import RATE_HZ, calling
from tests.live.process import Process, serving


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the server runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def warm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The server, as a person starts it; but it has four places whatever the machine can bear, and little patience for
    a client that does not read."""
    arguments = ("--max-sessions", "4", "--oversubscribe", "8", "--slow-reader-s", "1.5")
    with serving(tmp_path_factory.mktemp("server"), *arguments) as process:
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log()


@pytest.fixture
async def server(warm_server: Process) -> AsyncIterator[Process]:
    """The same. A test that uses it fails where it leaves anything: see `Process.settled`."""
    before = warm_server.holdings()
    yield warm_server
    await warm_server.settled(before)


@pytest.fixture(scope="session")
def clips() -> dict[str, Clip]:
    """The committed utterances by name."""
    return {clip.file.removesuffix(".wav"): clip for clip in load()}


@pytest.fixture(scope="session")
def spoken(clips: dict[str, Clip]) -> dict[str, Samples]:
    """Their sound, int16 [n] at 24 kHz."""
    return {name: clip.samples(RATE_HZ) for name, clip in clips.items()}


async def next_turn(url: str) -> None:
    """Whatever has happened before: a new session is let in and answered."""
    async with calling(url, output_modalities=["text"], max_output_tokens=4) as caller:
        answer = await caller.ask("Hello")
        assert answer["output"][0]["content"][0]["text"]
