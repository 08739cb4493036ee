"""The page in web/: its pure parts in node, the whole of it in Chromium against a stub server and real sessions."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(NODE is None, reason="node is not installed (Debian: nodejs npm)"),
]


@pytest.fixture(scope="session")
def node_modules() -> None:
    """What package-lock.json names, installed once; the browser is the system's own."""
    if (HERE / "node_modules" / "playwright-core").is_dir():
        return
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=HERE, check=True, env=os.environ | {"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"})


@pytest.fixture(scope="session")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WAV that noise suppression takes for a voice: harmonics of a gliding pitch, in syllables, with pauses."""
    rate_hz = 48_000
    t = np.arange(rate_hz * 4) / rate_hz
    phase = 2 * np.pi * np.cumsum(130 + 25 * np.sin(2 * np.pi * 0.7 * t)) / rate_hz
    voice = sum(np.sin(k * phase) / k for k in range(1, 20))
    syllables = np.clip(np.sin(2 * np.pi * 3.5 * t), 0, None) ** 0.5
    pcm = (0.25 * voice * syllables * 32767).clip(-32768, 32767).astype("<i2")
    path = tmp_path_factory.mktemp("microphone") / "voice.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate_hz)
        out.writeframes(pcm.tobytes())
    return path


@pytest.fixture(scope="session")
def stub_url() -> Iterator[str]:
    with served("tests.web.stub_server") as url:
        yield url


@pytest.fixture(scope="session")
def kernel_url() -> Iterator[str]:
    with served("tests.web.kernel_server") as url:
        yield url


@contextmanager
def served(module: str) -> Iterator[str]:
    """A server in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", module, "--port", str(port)], cwd=ROOT)
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{url}/readyz", timeout=1).close()
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, f"{module} has died"
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def run_node(*files: Path, **environment: str) -> None:
    done = subprocess.run(
        [str(NODE), "--test", "--test-concurrency=1", "--test-reporter=spec", *map(str, files)],
        capture_output=True,
        text=True,
        timeout=150,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
    assert "pass 0" not in done.stdout, "node found no test"


def test_pure_parts() -> None:
    run_node(*sorted(HERE.glob("unit/*.test.mjs")))


@pytest.mark.timeout(180)
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)")
def test_page_in_chromium(node_modules: None, microphone: Path, stub_url: str) -> None:
    run_node(HERE / "page.test.mjs", STUB_URL=stub_url, MIC_WAV=str(microphone), CHROMIUM=str(CHROMIUM))


@pytest.mark.timeout(180)
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)")
def test_page_with_real_sessions(node_modules: None, microphone: Path, kernel_url: str) -> None:
    run_node(HERE / "kernel.test.mjs", KERNEL_URL=kernel_url, MIC_WAV=str(microphone), CHROMIUM=str(CHROMIUM))
