"""What the readme says, done."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from duplex.audio.wav import read_wav
from tests.live.caller import RATE_HZ, is_audible
from tests.live.process import ROOT, Process

README = (ROOT / "README.md").read_text()


@pytest.mark.anyio
@pytest.mark.models
@pytest.mark.live
async def test_the_example_talks(server: Process, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    elsewhere = example.replace("http://127.0.0.1:8000/", server.url)
    assert elsewhere != example
    (tmp_path / "example.py").write_text(elsewhere)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "example.py", "How far away is the moon from the earth?"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert "moon" in out.decode()
    samples, rate_hz = read_wav(tmp_path / "answer.wav")
    assert rate_hz == RATE_HZ
    assert is_audible(samples)


def test_its_commands_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    wanted = set(re.findall(r"^make ([a-z]+)", shell, re.MULTILINE))
    assert wanted >= {"run", "test"}
    assert wanted <= targets
