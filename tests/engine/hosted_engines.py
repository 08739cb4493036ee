"""Engines for the tests of hosts, and a connector over plain files in memory; imported in the processes as well."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any

from duplex.connector.base import Handle
from duplex.connector.payload import Kind, Payload, Text
from duplex.engine.base import Engine, Sink, StageRequest
from duplex.engine.pool import WorkerPool
from duplex.engine.pooled import PooledEngine
from duplex.engine.worker import Emit, Usage
from duplex.errors import ConnectorFull, StageError, StaleFence, UnknownHandle
from duplex.session.fence import Fence

OWNER_BITS = 40


class FileConnector:
    """Texts in a memfd, one behind the other and never overwritten; a handle's key is its owner and its place."""

    def __init__(self, number: int, arena_bytes: int) -> None:
        self.number = number
        self.arena_bytes = arena_bytes
        self.fd = os.memfd_create(f"arena-{number}", os.MFD_CLOEXEC)
        self.peers: dict[int, int] = {number: self.fd}
        self.retired: list[Fence] = []
        self.forgotten: list[str] = []
        self.taken: list[str] = []
        self._end = itertools.count()
        self._used = 0
        self._lock = threading.Lock()

    def put(self, fence: Fence, payload: Payload) -> Handle:
        assert isinstance(payload, Text)
        data = payload.text.encode()
        with self._lock:
            if fence in self.retired:
                raise StaleFence("retired")
            if self._used + len(data) > self.arena_bytes:
                raise ConnectorFull("full")
            at, self._used = self._used, self._used + len(data)
        os.pwrite(self.fd, data, at)
        return Handle(fence=fence, kind=Kind.TEXT, key=self.number << OWNER_BITS | at, nbytes=len(data))

    def take(self, handle: Handle) -> Payload:
        owner, at = handle.key >> OWNER_BITS, handle.key & (1 << OWNER_BITS) - 1
        if owner not in self.peers:
            raise UnknownHandle(f"arena {owner} is gone")
        text = os.pread(self.peers[owner], handle.nbytes, at).decode()
        self.taken.append(text)
        return Text(text=text, start=0)

    def share(self, handle: Handle, readers: int) -> None: ...

    def retire(self, fence: Fence) -> int:
        self.retired.append(fence)
        return 0

    def held(self, session_id: str) -> int:
        return 0

    def forget(self, session_id: str) -> int:
        self.forgotten.append(session_id)
        return 0

    def add_peer(self, number: int, fd: int, arena_bytes: int) -> None:
        self.peers[number] = os.dup(fd)

    def drop_peer(self, number: int) -> None:
        if (fd := self.peers.pop(number, None)) is not None:
            os.close(fd)

    def close(self) -> None:
        for number in list(self.peers):
            self.drop_peer(number)


class Worker:
    """Does what its input says, else says it louder."""

    def __init__(self, connector: FileConnector) -> None:
        self._connector = connector

    def feed(self, payload: Payload, emit: Emit) -> None:
        assert isinstance(payload, Text)
        verb, _, rest = payload.text.partition(" ")
        match verb:
            case "abort":
                os.abort()
            case "exit":
                os._exit(int(rest))
            case "print":
                print(rest)
                os.write(2, b"native " + rest.encode() + b"\n")
            case "flood":
                line = b"x" * 99 + b"\n"
                for _ in range(int(rest)):
                    os.write(1, line * 100)
            case "long":
                os.write(1, b"y" * int(rest))
            case "sleep":
                time.sleep(float(rest))
            case "many":
                for number in range(int(rest)):
                    emit(Text(text=str(number), start=0))
            case "spin":
                while emit(Text(text="more", start=0)):
                    time.sleep(0.001)
                return
            case "facts":
                libc = ctypes.CDLL(None)
                libc.getenv.restype = ctypes.c_char_p
                facts = [sorted(os.sched_getaffinity(0)), libc.getenv(b"OMP_NUM_THREADS"), os.getpgid(0) == os.getpid()]
                fds = os.listdir("/proc/self/fd")
                links = [os.readlink(path) for fd in fds if os.path.exists(path := f"/proc/self/fd/{fd}")]
                emit(Text(text=repr([*facts, signal.getsignal(signal.SIGINT) is signal.SIG_IGN, links]), start=0))
                return
            case "connector":
                known = sorted(self._connector.peers)
                told = repr([known, len(self._connector.retired), self._connector.forgotten])
                emit(Text(text=told, start=0))
                return
            case "work":
                until = time.thread_time() + float(rest)
                while time.thread_time() < until:
                    pass
        emit(Text(text=payload.text.upper(), start=0))

    def finish(self, emit: Emit) -> Usage:
        return Usage(input_tokens=1)

    def close(self) -> None: ...


class Marking:
    """Wraps an engine: leaves a mark in a file when it is stopped, after a pause if that is wanted."""

    def __init__(self, inner: PooledEngine, mark: str, pause_s: float) -> None:
        self._inner = inner
        self._mark = mark
        self._pause_s = pause_s

    async def start(self, sink: Sink) -> None:
        await self._inner.start(sink)

    async def stop(self) -> None:
        await self._inner.stop()
        time.sleep(self._pause_s)  # noqa: ASYNC251  as a library that hangs
        with open(self._mark, "a") as file:  # noqa: ASYNC230
            file.write("stopped\n")

    def submit(self, request: StageRequest) -> None:
        self._inner.submit(request)

    def update(self, fence: Fence, handle: Handle | None, *, final: bool) -> None:
        self._inner.update(fence, handle, final=final)

    def abort(self, fence: Fence) -> None:
        self._inner.abort(fence)


class Blocking(Marking):
    """Its `submit` blocks the process's loop for good."""

    def submit(self, request: StageRequest) -> None:
        time.sleep(3600)


class Broken(Marking):
    """Its `submit` raises what no engine may."""

    def submit(self, request: StageRequest) -> None:
        raise ZeroDivisionError("a bug")


def upper(connector: FileConnector, options: dict[str, Any]) -> Mapping[str, Engine]:
    """Engines named in the options, "upper" if none; all on one pool."""
    print("building")
    if "fail" in options:
        raise StageError(options["fail"], stage="upper")
    if "crash" in options:
        os.abort()
    if "hang" in options:
        time.sleep(3600)
    if "deaf" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pool = WorkerPool(threads=4, name="test", capacity=1000)
    engines: dict[str, Engine] = {}
    for stage in options.get("stages", ["upper"]):
        inner = PooledEngine(
            stage=stage,
            factory=lambda request: Worker(connector),
            connector=connector,
            pool=pool,
            priority=1,
            load=None,
            max_requests=100,
            max_inbox=100,
        )
        kind = {"marking": Marking, "blocking": Blocking, "broken": Broken}.get(options.get("kind", ""))
        pause_s = float(options.get("pause_s", 0))
        engines[stage] = kind(inner, options.get("mark", os.devnull), pause_s) if kind is not None else inner
    return engines


def garbage(connector: FileConnector, options: dict[str, Any]) -> Mapping[str, Engine]:
    """At each submit it writes what the options say on the control socket."""
    fd = next(int(fd) for fd in os.listdir("/proc/self/fd") if _is_control(int(fd)))

    class Garbage(Marking):
        def submit(self, request: StageRequest) -> None:
            os.write(fd, options["bytes"] * options["times"])

    engines = upper(connector, {})
    inner = engines["upper"]
    assert isinstance(inner, PooledEngine)
    return {"upper": Garbage(inner, os.devnull, 0)}


def _is_control(fd: int) -> bool:
    import socket

    if fd < 3:
        return False
    try:
        with socket.socket(fileno=os.dup(fd)) as end:
            return end.family == socket.AF_UNIX and end.type == socket.SOCK_SEQPACKET
    except OSError:
        return False
