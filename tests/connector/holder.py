"""Another process with a `ShmConnector`: it holds what it is given, or races its owner."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from duplex.connector.base import Handle
from duplex.connector.payload import Latents
from duplex.connector.shm import ShmConnector
from duplex.errors import UnknownHandle
from duplex.session.fence import Fence

ARENA_BYTES = 256 << 10
_encode = msgspec.msgpack.encode
_decoder = msgspec.msgpack.Decoder(Handle)


@dataclass(frozen=True, slots=True)
class Holder:
    """The other process as the test sees it: process `number`, whose arena `connector` knows."""

    process: subprocess.Popen[bytes]
    socket: socket.socket

    def give(self, handle: Handle) -> bytes:
        """What it says of a handle: b"1" taken, b"0" refused."""
        self.socket.send(_encode(handle))
        return self.socket.recv(4096)

    def put(self, fence: Fence) -> Handle:
        """It puts again what it was last given."""
        self.socket.send(b"put" + _encode(fence))
        return _decoder.decode(self.socket.recv(4096))

    def kill(self) -> None:
        """As an engine dies: at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def holder(connector: ShmConnector, number: int, mode: str = "hold") -> Iterator[Holder]:
    """Start one; both know each other's arenas."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno()), str(number), str(connector.number), mode]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        try:
            _tell(ours, connector)
            _learn(ours, connector, number)
            yield Holder(process, ours)
        finally:
            process.kill()
            process.wait()


def dies(connector: ShmConnector) -> None:
    """Do as if the process of `connector` were dead: what it reads it never releases."""
    for window in connector._windows.values():
        for take in window.takes:
            take._ref = None
        window.takes.clear()


def _tell(sock: socket.socket, connector: ShmConnector) -> None:
    socket.send_fds(sock, [str(connector.arena_bytes).encode()], [connector.fd])


def _learn(sock: socket.socket, connector: ShmConnector, number: int) -> None:
    size, (fd,), _, _ = socket.recv_fds(sock, 64, 1)
    connector.add_peer(number, fd, int(size))
    os.close(fd)


def hold(sock: socket.socket, connector: ShmConnector) -> None:
    """Keep all that is given; put what is asked for."""
    kept = []
    while message := sock.recv(4096):
        if message.startswith(b"put"):
            fence = msgspec.msgpack.decode(message[3:], type=Fence)
            sock.send(_encode(connector.put(fence, kept[-1])))
            continue
        try:
            kept.append(connector.take(_decoder.decode(message)))
            sock.send(b"1")
        except UnknownHandle:
            sock.send(b"0")


def race(sock: socket.socket, connector: ShmConnector) -> None:
    """Take what is given, while its owner may retire it; look at it again when three others have come."""
    views: deque[tuple[Latents, int]] = deque()
    draw, taken, refused = random.Random(1), 0, 0
    while message := sock.recv(4096):
        try:
            payload = connector.take(_decoder.decode(message))
        except UnknownHandle:
            refused += 1
            continue
        assert isinstance(payload, Latents)
        taken += 1
        views.append((payload, payload.chunk))
        del payload
        while len(views) > draw.randint(0, 3):
            view, chunk = views.popleft()
            assert (view.tensors[0].array() == chunk % 251).all(), "bytes of another payload"
            del view
    views.clear()
    sock.send(f"{taken} {refused}".encode())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as sock, ShmConnector(int(sys.argv[2]), ARENA_BYTES) as connector:
        _learn(sock, connector, int(sys.argv[3]))
        _tell(sock, connector)
        {"hold": hold, "race": race}[sys.argv[4]](sock, connector)
