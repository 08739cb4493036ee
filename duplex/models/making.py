"""Model files that no wheel holds: how each is made from one that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

Maker = Callable[[Path, Path], None]
"""Makes the second file from the first one; the same bytes on every machine."""


def _quicken(source: Path, target: Path) -> None:
    # Whoever only serves has the files already, and needs no library that writes them.
    from duplex.models.requantize import quicken

    quicken(source, target)


MAKERS: Mapping[str, Maker] = {"quicken": _quicken}
"""By the name that the manifest has for it."""
