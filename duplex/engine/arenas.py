"""Who has which arena: every process reads from every other's, so each is told of those that come and go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from duplex.connector.base import Connector
from duplex.engine.wire import AddPeer, DropPeer, ToProcess
from duplex.errors import StageError

MOST = 64
"""Processes with an arena, the server among them."""

Tell = Callable[[ToProcess, Sequence[int]], None]
"""Says something to a process, with descriptors beside it."""


class ArenaConnector(Connector, Protocol):
    """A connector whose payloads lie in an arena of its own, which others may map by its descriptor."""

    number: int
    """Names the arena among all."""

    @property
    def fd(self) -> int:
        """Descriptor of the arena; stays the connector's own."""

    @property
    def arena_bytes(self) -> int:
        """Size of the arena."""

    def add_peer(self, number: int, fd: int, arena_bytes: int) -> None:
        """There is another arena. The descriptor stays the caller's: what is kept of it is a mapping or a copy."""

    def drop_peer(self, number: int) -> None:
        """An arena's owner is gone. An unknown number is ignored."""

    def close(self) -> None:
        """Give the arena back."""


@dataclass(frozen=True, slots=True)
class _Member:
    fd: int
    arena_bytes: int
    tell: Tell


class Arenas:
    """The arenas of one server and its processes.

    Args:
        connector: the server's own.
    """

    def __init__(self, connector: ArenaConnector) -> None:
        self.connector = connector
        self._members: dict[int, _Member] = {}
        self._free = [number for number in range(MOST) if number != connector.number]

    def number(self, name: str) -> int:
        """A number for one life of a process. The one that has been free for longest: a handle of whoever had it
        before must not be about any more. Raises StageError where there are too many processes."""
        if not self._free:
            raise StageError(f"{MOST} processes share arenas already; use fewer replicas", stage=name)
        return self._free.pop(0)

    def give_back(self, number: int) -> None:
        """A process has ended; its arena, if it had one, is gone everywhere."""
        self._free.append(number)
        member = self._members.pop(number, None)
        if member is None:
            return
        os.close(member.fd)
        self.connector.drop_peer(number)
        for other in self._members.values():
            other.tell(DropPeer(number=number), ())

    def join(self, number: int, fd: int, arena_bytes: int, tell: Tell) -> None:
        """A process has its arena: it and all others are told of each other. `fd` is kept until `give_back`.

        They are told before any handle of this arena can be: each over the road on which handles come.

        Raises:
            DuplexError, OSError: it is no such arena; the descriptor stays the caller's.
        """
        self.connector.add_peer(number, fd, arena_bytes)
        self._members[number] = _Member(fd, arena_bytes, tell)
        for known, other in self._members.items():
            if known != number:
                other.tell(AddPeer(number=number, arena_bytes=arena_bytes), (fd,))
                tell(AddPeer(number=known, arena_bytes=other.arena_bytes), (other.fd,))
