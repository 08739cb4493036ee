"""A directory for one unix socket, which this user alone can enter."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import weakref
from pathlib import Path

from duplex.errors import StageError

_PREFIX = "duplex-"
_NAME = "server.sock"
_MOST_BYTES = 107
"""Longest path of a unix socket on Linux: `sun_path` has 108 bytes, the last of which is 0 (unix(7))."""
_ELSEWHERE = Path("/tmp")


class SocketDirectory:
    """Gone after `close` or at exit. What a killed process left is removed by the next that makes one in its place.

    Args:
        parent: where to make it; by default where temporary files go, or `/tmp` where that path is too long.

    Raises:
        StageError: no place is both short enough and writable.
    """

    def __init__(self, *, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        if not _fits(parent):
            parent = _ELSEWHERE
        _sweep(parent)
        try:
            directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # mode 0700
        except OSError as refusal:
            message = f"no directory for a socket can be made in {parent} ({refusal.strerror}): set TMPDIR to another"
            raise StageError(message, stage="llama") from refusal
        self.socket = directory / _NAME
        self._forget = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)

    def close(self) -> None:
        """Remove it; closing twice is fine."""
        self._forget()


def _fits(parent: Path) -> bool:
    return len(bytes(parent / (_PREFIX + "x" * 8) / _NAME)) <= _MOST_BYTES


def _sweep(parent: Path) -> None:
    """Remove what nobody listens on any more; another user's cannot be entered, and a young one has no socket yet."""
    for path in parent.glob(f"{_PREFIX}*/{_NAME}"):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                shutil.rmtree(path.parent, ignore_errors=True)
            except OSError:
                continue
