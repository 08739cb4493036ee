"""How long a payload takes from one process to another and back to the news that it was read, beside a plain copy.

Two real processes: this one puts and tells, over an AF_UNIX message; the other takes, touches the first and the last
byte, lets go and acknowledges. Both run on one core, one after the other as they do anyway: where each has a core of
its own, most of the time is the machine's, which wakes a core that has gone to sleep. That is measured too, and so is
the message alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
import numpy as np

from duplex.connector.base import Handle
from duplex.connector.payload import Latents, Tensor
from duplex.connector.shm import ShmConnector
from duplex.session.fence import Fence
from latency_bench.table import Row

SIZES = {"4 KB": 4 << 10, "256 KB": 256 << 10, "4 MB": 4 << 20}
TIMES = {"4 KB": 4000, "256 KB": 1500, "4 MB": 300}
ROUNDS = 3
ARENA_BYTES = 32 << 20
BAR_SMALL_US = 40
BAR_LARGE = 1.5

_WRITER, _READER = 0, 1
_FENCE = Fence("handover", 0, "main", 0)
_NOTE = "p50 with the acknowledgement"


class Reader:
    """The other process, spawned, with the arenas of both made known to each other."""

    def __init__(self, connector: ShmConnector) -> None:
        self._connector = connector
        self._encoder = msgspec.msgpack.Encoder()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
        socket.send_fds(self.socket, [str(connector.arena_bytes).encode()], [connector.fd])
        self.socket.recv(1)

    def hand_over(self, payload: Latents) -> None:
        """Returns when the other process has taken it, read it and let go."""
        handle = self._connector.put(_FENCE, payload)
        self.socket.send(self._encoder.encode(handle))
        self.socket.recv(1)

    def message(self) -> None:
        """A message of a handle's size, and its acknowledgement."""
        self.socket.send(b"\xc0" + bytes(99))
        self.socket.recv(1)

    def pin(self, core: int) -> None:
        """Let the other process run on one core only."""
        os.sched_setaffinity(self._process.pid, {core})

    def close(self) -> None:
        """End it."""
        self.socket.close()
        self._process.wait()


def read(sock: socket.socket) -> None:
    """What the other process does, until the socket is closed."""
    with ShmConnector(_READER, 1 << 20) as connector:
        size, (fd,), _, _ = socket.recv_fds(sock, 64, 1)
        connector.add_peer(_WRITER, fd, int(size))
        os.close(fd)
        decoder = msgspec.msgpack.Decoder(Handle | None)
        sock.send(b"\0")
        while message := sock.recv(512):
            if message[0] != 0xC0 and (handle := decoder.decode(message)) is not None:
                payload = connector.take(handle)
                assert isinstance(payload, Latents)
                data = payload.tensors[0].data
                acknowledgement = bytes((int(data[0]) ^ int(data[-1]),))
                del payload, data
                sock.send(acknowledgement)
            else:
                sock.send(b"\0")


def rows(*, scale: float = 1.0) -> list[Row]:
    """Measure; `scale` times as often as is usual.

    Returns:
        bars: 4 KB in microseconds; 4 MB as a multiple of a plain copy of the same bytes.
    """
    found = []
    with ShmConnector(_WRITER, ARENA_BYTES) as connector, _reader(connector) as reader, _one_core(reader):
        alone = _p50(reader.message, _times("4 KB", scale))
        for name, nbytes in SIZES.items():
            times = _times(name, scale)
            payload, plain = _payload(nbytes), _copy(nbytes)
            # In turns, so that both see the same machine.
            handing = partial(reader.hand_over, payload)
            taken, copied = zip(*((_p50(handing, times), _p50(plain, times)) for _ in range(ROUNDS)), strict=True)
            handed, copy = min(taken), min(copied)
            large = nbytes == SIZES["4 MB"]
            found.append(
                Row(
                    figure=f"hand-over of {name}",
                    value=handed,
                    unit="us",
                    bar=BAR_SMALL_US if nbytes == SIZES["4 KB"] else None,
                    note=f"{_NOTE}, both processes on one core; plain copy {copy:.1f} us",
                )
            )
            if large:
                ratio = handed / copy
                note = f"{_NOTE}, against {copy:.0f} us"
                found.append(
                    Row(figure=f"{name} against a plain copy", value=ratio, unit="x", bar=BAR_LARGE, note=note)
                )
        found.append(Row(figure="a message alone", value=alone, unit="us", note=f"{_NOTE}, on the same core"))
    return found


def _payload(nbytes: int) -> Latents:
    numbers = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
    return Latents(tensors=(Tensor.of(numbers),))


def _copy(nbytes: int) -> Callable[[], None]:
    source = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
    target = np.zeros_like(source)
    return lambda: np.copyto(target, source)


def _times(name: str, scale: float) -> int:
    return max(3, int(TIMES[name] * scale / ROUNDS))


def _p50(act: Callable[[], None], times: int) -> float:
    """Microseconds."""
    for _ in range(min(20, times)):
        act()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2] * 1e6


@contextmanager
def _reader(connector: ShmConnector) -> Iterator[Reader]:
    reader = Reader(connector)
    try:
        yield reader
    finally:
        reader.close()


@contextmanager
def _one_core(reader: Reader) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    reader.pin(core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    read(socket.socket(fileno=int(sys.argv[1])))
