"""The rules of the house hold in this checkout, and the checker finds each breach of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import breaches, modules_of

ROOT = Path(__file__).parent.parent


def test_the_rules_hold() -> None:
    assert breaches(ROOT) == []


def test_the_checker_sees_the_package() -> None:
    modules = modules_of(ROOT)
    assert {"duplex", "duplex.errors", "duplex.session.fence", "duplex.models.store"} <= modules.keys()


def plant(root: Path, files: dict[str, str]) -> list[str]:
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return breaches(root)


@pytest.mark.parametrize(
    ("file", "source", "breach"),
    [
        ("duplex/session/core.py", "import asyncio", "duplex.session.core:1: is pure, and imports asyncio"),
        ("duplex/session/core.py", "from time import monotonic", "duplex.session.core:1: is pure, and imports time"),
        (
            "duplex/orchestrator/core.py",
            "import threading",
            "duplex.orchestrator.core:1: is pure, and imports threading",
        ),
        ("duplex/errors.py", "from duplex.audio import pcm", "duplex.errors:1: imports duplex.audio.pcm"),
        ("duplex/errors.py", "def f():\n    import duplex.audio.pcm", "duplex.errors:2: imports duplex.audio.pcm"),
        ("duplex/errors.py", "from .audio import pcm", "duplex.errors:1: imports duplex.audio.pcm"),
        ("duplex/session/core.py", "from ..audio import pcm", "duplex.session.core:1: imports duplex.audio.pcm"),
        ("duplex/session/__init__.py", "from ..audio import pcm", "duplex.session:1: imports duplex.audio.pcm"),
        (
            "duplex/session/core.py",
            "import duplex.session.runner",
            "duplex.session.core:1: imports duplex.session.runner",
        ),
        ("duplex/transport/ws.py", "import duplex.session.core", "duplex.transport.ws:1: imports duplex.session.core"),
        (
            "latency_bench/wire/x.py",
            "import duplex.session.runner",
            "latency_bench.wire.x:1: imports duplex.session.runner",
        ),
        (
            "latency_bench/wire/x.py",
            "import latency_bench.micro.x",
            "latency_bench.wire.x:1: imports latency_bench.micro.x",
        ),
        ("latency_bench/micro/x.py", "# SmolLM2", "latency_bench.micro.x:1: names a model, SmolLM"),
        ("duplex/attic/x.py", "", "duplex.attic.x:1: no rule says what this module may import: add it to ALLOWED"),
        ("duplex/cli.py", '"""Runs SmolLM2."""', "duplex.cli:1: names a model, SmolLM"),
        ("duplex/cli.py", "# a smart-turn call", "duplex.cli:1: names a model, smart-turn"),
        ("duplex/cli.py", "try:\n    f()\nexcept Exception:\n    pass", "duplex.cli:3: catches everything and goes on"),
        ("duplex/cli.py", "try:\n    f()\nexcept:\n    g()", "duplex.cli:3: catches everything and goes on"),
        (
            "duplex/cli.py",
            "try:\n    f()\nexcept (OSError, BaseException):\n    g()",
            "duplex.cli:3: catches everything and goes on",
        ),
        ("duplex/cli.py", "asyncio.create_task(f())", "duplex.cli:1: starts a task that no TaskGroup owns"),
        ("duplex/cli.py", "self._loop.create_task(f())", "duplex.cli:1: starts a task that no TaskGroup owns"),
        (
            "duplex/cli.py",
            "from asyncio import ensure_future\nensure_future(f())",
            "duplex.cli:2: starts a task that no TaskGroup owns",
        ),
        ("duplex/cli.py", "import os\nx = os.environ['X']", "duplex.cli:2: reads the environment"),
        ("duplex/cli.py", "import os\nx = os.getenv('X')", "duplex.cli:2: reads the environment"),
        ("duplex/cli.py", "from os import environ", "duplex.cli:1: reads the environment"),
    ],
)
def test_a_planted_breach_is_found(tmp_path: Path, file: str, source: str, breach: str) -> None:
    tree = {"duplex/__init__.py": "", "duplex/audio/pcm.py": "", "duplex/session/runner.py": ""}
    assert plant(tmp_path, tree | {file: source}) == [breach]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("duplex/cli.py", "try:\n    f()\nexcept BaseException:\n    g()\n    raise"),
        ("duplex/engine/pooled.py", "try:\n    f()\nexcept Exception:\n    pass"),
        ("duplex/session/runner.py", "import asyncio, time"),
        ("duplex/session/runner.py", "tasks.create_task(f())"),
        ("duplex/config.py", "import os\nx = os.environ"),
        ("duplex/models/silero/vad.py", '"""Silero."""'),
        ("latency_bench/micro/x.py", "import duplex.session.runner"),
        ("duplex/engine/llama.py", '"""Runs models through llama.cpp."""'),
    ],
)
def test_what_is_allowed_is_no_breach(tmp_path: Path, file: str, source: str) -> None:
    assert plant(tmp_path, {file: source}) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    tree = {
        "duplex/audio/a.py": "from duplex.audio import b",
        "duplex/audio/b.py": "import duplex.audio.c",
        "duplex/audio/c.py": "def f():\n    from duplex.audio.a import x",
        "duplex/audio/d.py": "import duplex.audio.a",
    }
    assert plant(tmp_path, tree) == ["circle: duplex.audio.a -> duplex.audio.b -> duplex.audio.c -> duplex.audio.a"]
