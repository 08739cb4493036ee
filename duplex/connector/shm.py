"""The connector between processes of one machine: payloads lie in shared memory, and are read where they lie.

Each process has one `ShmConnector` with an arena of its own, into which it puts; it learns its peers' arenas by their
descriptors (`add_peer`), and takes from them without asking anyone. What is taken is a view, read-only: its slot is
given back when the last array on it dies, by one store into the arena. So nobody must say that he is done, and nobody
waits for an answer; the owner finds the store when it next needs room.

How a payload ends: it has been taken as often as it may be and all takes are done with; or its fence has been retired
and nobody reads it; or its readers have died (`drop_peer`). Where there is no room `put` refuses with `ConnectorFull`:
the policy of the full arena is to refuse, and who puts decides whether to drop or to try again.

Control shares, and only control: a handle for n readers is said to be one (`share`) before the first of them has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from duplex.connector.arena import Arena, Slot, write
from duplex.connector.base import Handle, Place
from duplex.connector.codec import Buffer, decode, encode, read_header
from duplex.connector.extents import aligned
from duplex.connector.payload import Kind, Payload, Voiced
from duplex.connector.retired import RetiredFences
from duplex.connector.slots import MAX_TAKES, PROCESSES
from duplex.connector.window import Window
from duplex.errors import ConfigError, ConnectorClosed, MalformedPayload, PeerGone, StaleFence, UnknownHandle
from duplex.session.fence import Fence


class ShmConnector:
    """One process's connector to all processes of its machine. See `Connector` for what every one can do.

    Args:
        number: of this process, 0 to 63; no two that live may have the same.
        arena_bytes: what may be held of all that this process puts, with what that takes beside the payloads. All of
            it is real memory from the start.
        first_generation: see `Arena`.

    Raises:
        ConfigError: the number or the size cannot be.
    """

    def __init__(self, number: int, arena_bytes: int, *, first_generation: int | None = None) -> None:
        if not 0 <= number < PROCESSES:
            raise ConfigError(f"process {number} cannot share memory: numbers are 0 to {PROCESSES - 1}")
        self.number = number
        self._arena = Arena(arena_bytes=arena_bytes, first_generation=first_generation)
        self._lock = threading.Lock()
        self._retired = RetiredFences()
        self._closed = False
        own = Window(self._arena.fd, arena_bytes=self._arena.arena_bytes, number=number)
        self._windows: dict[int, Window] = {number: own}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def fd(self) -> int:
        """Descriptor of the arena, to be sent to a peer; it stays this connector's own, and is closed with it."""
        return self._arena.fd

    @property
    def arena_bytes(self) -> int:
        """Size of the arena: at least what was asked for."""
        return self._arena.arena_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the arena that are in use now."""
        with self._lock:
            self._arena.sweep()
            return self._arena.nbytes

    def __len__(self) -> int:
        """Payloads in the arena now."""
        with self._lock:
            self._arena.sweep()
            return len(self._arena.used)

    def add_peer(self, number: int, fd: int, arena_bytes: int) -> None:
        """Make another process's payloads readable; one that had this number before is forgotten.

        Args:
            number: the peer's own.
            fd, arena_bytes: what the peer's connector says of itself. The descriptor may be closed afterwards.

        Raises:
            ConnectorError: the descriptor is no arena of this size.
            ConfigError: the number cannot be a peer's.
        """
        if not 0 <= number < PROCESSES or number == self.number:
            raise ConfigError(f"{number} is no number of a peer of process {self.number}")
        window = Window(fd, arena_bytes=arena_bytes, number=self.number)
        with self._lock:
            self._check_open()
            self._windows[number] = window

    def drop_peer(self, number: int) -> None:
        """A process has ended (it must really have): its handles name nothing any more, what it was reading is free.

        What has been taken of it stays readable for as long as there are views.
        """
        with self._lock:
            if number != self.number:
                self._windows.pop(number, None)
                self._arena.excuse(number)

    def put(self, fence: Fence, payload: Payload) -> Handle:
        header, buffers = encode(payload)
        starts, start = [], 0
        for buffer in buffers:
            starts.append(start)
            start += aligned(buffer.nbytes)
        length = start + len(header)
        with self._lock:
            self._check_open()
            if self._retired.has(fence):
                raise StaleFence(f"{fence} has been retired")
            slot = self._arena.allocate(fence, length)
            memory = self._arena.payloads
        # The handle first: a large copy leaves the processor's caches to nobody else.
        place = Place(self.number, slot.number, slot.generation, slot.offset, length, start)
        samples, text_end = (len(payload.samples), payload.text_end) if isinstance(payload, Voiced) else (0, 0)
        handle = Handle(
            fence=fence,
            kind=payload.kind,
            key=slot.generation,
            nbytes=payload.nbytes,
            samples=samples,
            text_end=text_end,
            place=place,
        )
        try:
            # Without the lock: other threads go on meanwhile.
            write(memory, slot.offset + start, header)
            for at, buffer in zip(starts, buffers, strict=True):
                write(memory, slot.offset + at, buffer)
        except BaseException:
            with self._lock:
                slot.wanted = False
                self._arena.publish(slot)
            raise
        with self._lock:
            self._check_open()
            if not self._arena.publish(slot):
                raise StaleFence(f"{fence} has been retired")
        return handle

    def take(self, handle: Handle) -> Payload:
        """Give the payload away, as views of it. A second take of the same handle is refused; but of two processes that
        take it at the same moment both may get it, so control gives a handle to one, or shares it.

        Raises:
            UnknownHandle: already taken, or dropped with its fence.
            PeerGone: its process has ended.
            MalformedPayload: its bytes are none.
        """
        place = handle.place
        if place is None:
            raise UnknownHandle(f"payload {handle.key} of {handle.fence} lies in no arena")
        with self._lock:
            self._check_open()
            if self._retired.has(handle.fence):
                raise UnknownHandle(f"{handle.fence} has been retired")
            window = self._windows.get(place.owner)
            if window is None:
                raise PeerGone(f"process {place.owner} has ended, or was never made known: its payloads are gone")
            take = window.take(place)
        try:
            header, base = window.bytes(place)
            payload = _read(handle.kind, header, base)
        except BaseException:
            take.end()
            raise
        if base.nbytes:
            take.end_with(base)
        else:
            take.end()
        return payload

    def share(self, handle: Handle, readers: int) -> None:
        place = handle.place
        if place is None or not 0 < readers <= MAX_TAKES:
            raise UnknownHandle(f"payload {handle.key} of {handle.fence} cannot be shared by {readers}")
        with self._lock:
            window = self._windows.get(place.owner)
            if window is not None:
                window.share(place, readers)

    def retire(self, fence: Fence) -> int:
        """Drop what this process has put; what is read now is dropped when that ends, and is not in the number."""
        with self._lock:
            self._retired.add(fence)
            return self._shut(lambda slot: slot.fence == fence or fence.outdates(slot.fence))

    def held(self, session_id: str) -> int:
        with self._lock:
            self._arena.sweep()
            return sum(slot.nbytes for slot in self._arena.used if slot.fence.session_id == session_id)

    def forget(self, session_id: str) -> int:
        with self._lock:
            self._retired.forget(session_id)
            return self._shut(lambda slot: slot.fence.session_id == session_id)

    def close(self) -> None:
        """Give and take nothing any more. Views that are alive stay readable; what they hold of a peer's arena the peer
        gets back with `drop_peer`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._windows.clear()
                self._arena.close()

    def _shut(self, of_these: Callable[[Slot], bool]) -> int:
        self._arena.sweep()
        return sum(slot.nbytes for slot in self._arena.used if of_these(slot) and self._arena.shut(slot))

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectorClosed(f"the connector of process {self.number} has been closed")


def _read(kind: Kind, header: memoryview, base: Buffer) -> Payload:
    read = read_header(header, kind)
    buffers, start = [], 0
    for size in read.sizes:
        buffers.append(base[start : start + size])
        start += aligned(size)
    if start != base.nbytes:
        raise MalformedPayload(f"{base.nbytes} bytes where the header says {start}")
    return decode(read, buffers)
