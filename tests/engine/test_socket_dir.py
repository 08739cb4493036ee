"""Where the engine's socket lies: out of reach of others, within the bound of its path, and not for ever."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from duplex.engine.socket_dir import SocketDirectory
from duplex.errors import StageError


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def test_it_is_this_users_alone_and_gone_afterwards() -> None:
    made = SocketDirectory()
    assert made.socket.parent.stat().st_mode & 0o777 == 0o700
    with listening(made.socket):
        made.close()
    assert not made.socket.parent.exists()
    made.close()


def test_a_long_path_is_evaded(tmp_path: Path) -> None:
    parent = tmp_path / ("x" * 90)
    parent.mkdir()
    made = SocketDirectory(parent=parent)
    with listening(made.socket):
        assert not list(parent.iterdir())
    made.close()


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays() -> None:
    place = SocketDirectory()
    parent = place.socket.parent
    used, left = (SocketDirectory(parent=parent) for _ in range(2))
    with listening(used.socket):
        listening(left.socket).close()  # The file stays, as after kill -9.
        young = SocketDirectory(parent=parent)
        assert used.socket.exists()
        assert not left.socket.parent.exists()
        SocketDirectory(parent=parent).close()
        assert young.socket.parent.exists(), "its server has not come to listening yet"
    place.close()


def test_nowhere_to_go_is_one_sentence() -> None:
    with pytest.raises(StageError, match="set TMPDIR to another"):
        SocketDirectory(parent=Path("/nowhere"))
