"""The example family: found by its entry point, and run by the orchestrator like any other."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Message, Prompt, Text, Voiced
from duplex.errors import FamilyError
from duplex.models.family import Family, Resources
from duplex.models.hosted import SPEC, Hosted, engines
from duplex.models.registry import GROUP, family
from duplex.orchestrator.core import Deliver, Orchestrator, RequestCompleted
from duplex.orchestrator.graph import StageGraph
from duplex.orchestrator.runner import OrchestratorRunner, Report
from duplex.orchestrator.trace import TraceLog
from duplex.session.fence import MAIN, Fence

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_stages"
FENCE = Fence("s", 0, MAIN, 1)
SONG = "row row row your boat"


@pytest.fixture
def sings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Family]:
    """The family, as if pip had installed it: on the path, with the metadata that its pyproject.toml makes."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "three_stages-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    entries = "".join(f"{name} = {value}\n" for name, value in project["entry-points"][GROUP].items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield family("three-stages")
    sys.modules.pop("three_stages", None)


async def sung(graph: StageGraph, models: Family) -> tuple[list[str], list[Voiced], RequestCompleted]:
    """One request through the real orchestrator: kinds in the order of their coming, the audio, and the end."""
    connector = MemoryConnector(budget_bytes=1 << 20)
    pipeline = models.build(graph.stages, Resources(path=Path, connector=connector, sessions=1))
    loop = asyncio.get_running_loop()
    runner = OrchestratorRunner(
        core=Orchestrator(graph, capacity=1),
        engines=pipeline.engines,
        connector=connector,
        clock=loop.time,
        trace=TraceLog(capacity=1),
    )
    came: list[str] = []
    audio: list[Voiced] = []
    ended: asyncio.Future[RequestCompleted] = loop.create_future()

    def receive(report: Report) -> None:
        match report:
            case Deliver(handle=handle):
                payload = connector.take(handle)
                came.append(payload.kind)
                if isinstance(payload, Voiced):
                    audio.append(payload)
                else:
                    assert isinstance(payload, Text)
            case RequestCompleted():
                ended.set_result(report)
            case failed:
                ended.set_exception(failed.error)

    await runner.start()
    runner.admit(FENCE, tuple(graph.stages), receive)
    prompt = Prompt(messages=(Message(role="user", text=SONG),), max_tokens=8, temperature=0)
    runner.update(FENCE, "words", connector.put(FENCE, prompt), last=True)
    end = await ended
    await runner.stop()
    pipeline.close()
    assert pipeline.active() == dict.fromkeys(graph.stages, 0)
    assert len(connector) == 0
    return came, audio, end


@pytest.mark.anyio
@pytest.mark.parametrize("async_chunk", [True, False])
async def test_words_become_audio(sings: Family, async_chunk: bool) -> None:
    came, audio, end = await sung(sings.graph.with_async_chunk(async_chunk), sings)
    assert end.reason == "stop"
    words = SONG.split()
    assert sorted(came) == ["text"] * len(words) + ["voiced"] * len(words)
    if not async_chunk:
        assert came.index("voiced") == len(words), "nothing is sung before all words are known"
    assert [note.text_end for note in audio] == [len(" ".join(words[:count])) + 1 for count in range(1, 6)]
    assert all(len(note.samples) == note.rate_hz // 5 and np.abs(note.samples).max() > 5000 for note in audio)
    assert np.array_equal(audio[0].samples, audio[1].samples), "the same word is the same note"


def test_a_process_can_have_some_of_its_stages(sings: Family, tmp_path: Path) -> None:
    hosted = Hosted(
        family=sings.name, stages=("notes", "audio"), models_dir=str(tmp_path), models_owned=True, sessions=1
    )
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(hosted.options()))
    module, _, function = SPEC.partition(":")
    assert getattr(sys.modules[module], function) is engines
    assert engines(MemoryConnector(budget_bytes=1), travelled).keys() == {"notes", "audio"}
    with pytest.raises(FamilyError, match=r"was given wrong options: .*sessions"):
        engines(MemoryConnector(budget_bytes=1), {**travelled, "sessions": "many"})


def test_it_is_about_a_hundred_lines() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in EXAMPLE.rglob("*.py"))
    assert lines <= 120
