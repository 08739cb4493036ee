"""One end of the control socket, on an event loop: whole messages, never a wait, no thread of its own."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from duplex.engine.wire import MAX_BYTES, ToHost, ToProcess, encode
from duplex.errors import ControlError

BURST = 32
"""Messages that are read at one go; then others on the loop have their turn."""

MAX_FDS = 4

_M = TypeVar("_M", ToHost, ToProcess)


class Channel(Generic[_M]):
    """Sends and reads messages.

    `send` may be called from any thread: a message goes out in one system call by the thread that has it, or waits
    where the kernel takes no more. Everything else belongs to the loop, and so do both callbacks.

    Args:
        end: a non-blocking end of an AF_UNIX SOCK_SEQPACKET pair; closed with the channel.
        decode: reads one message.
        on_message: takes each message, with the descriptors that came beside it and are the taker's from then on.
        on_end: told once why there will be no more: the other side is gone, or cannot be understood, or does not read.
            Always called from the loop itself, never from inside `send`.
        most_waiting: messages that wait for a reader. The policy when full: the other side is stuck, and this ends.
    """

    def __init__(
        self,
        *,
        end: socket.socket,
        decode: Callable[[memoryview], _M],
        on_message: Callable[[_M, Sequence[int]], None],
        on_end: Callable[[str], None],
        most_waiting: int,
    ) -> None:
        self._end = end
        self._decode: Callable[[memoryview], _M] = decode
        self._on_message: Callable[[_M, Sequence[int]], None] = on_message
        self._on_end = on_end
        self._most_waiting = most_waiting
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._closed = self._told = False
        self._buffer = bytearray(MAX_BYTES + 1)
        self._view = memoryview(self._buffer)
        self._room = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
        self._loop.add_reader(end, self.read)

    @property
    def waiting(self) -> int:
        """Messages that the kernel has not taken yet."""
        return len(self._waiting)

    def send(self, message: ToHost | ToProcess, fds: Sequence[int] = ()) -> None:
        """Send a message, and copies of `fds` beside it. After the end it is dropped.

        Raises:
            ControlError: the message is too long; nothing was sent.
        """
        data = encode(message)
        with self._lock:
            if self._closed or self._told:
                return
            if not self._waiting and self._sent(data, fds):
                return
            if len(self._waiting) >= self._most_waiting:
                self._told = True
                self._soon(self._tell, f"does not read: {self._most_waiting} messages wait for it")
                return
            self._waiting.append((data, tuple(os.dup(fd) for fd in fds)))
            if len(self._waiting) == 1:
                self._soon(self._watch)

    def _sent(self, data: bytes, fds: Sequence[int]) -> bool:
        """Whether it is out of the way; under the lock."""
        try:
            if fds:
                socket.send_fds(self._end, [data], list(fds))
            else:
                self._end.send(data)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            pass  # Nobody is there any more, and the reader is just being told so.
        except OSError as error:
            self._told = True
            self._soon(self._tell, f"cannot be written to ({error.strerror})")
        return True

    def _soon(self, call: Callable[..., None], *arguments: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _watch(self) -> None:
        if not self._closed:
            self._loop.add_writer(self._end, self._flush)

    def _flush(self) -> None:
        with self._lock:
            while self._waiting and self._sent(*self._waiting[0]):
                close_fds(self._waiting.popleft()[1])
            if not self._waiting:
                self._loop.remove_writer(self._end)

    def read(self, most: int = BURST) -> None:
        """Take what has come, at most so many messages; called by the loop, or to know what there is."""
        for _ in range(most):
            if self._closed:
                return
            try:
                nbytes, beside, flags, _ = self._end.recvmsg_into([self._buffer], self._room, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # It died with something unread; what it said before still follows, and then the end.
            except OSError as error:
                self._tell(f"closed its control socket ({error.strerror})")
                return
            fds = _fds(beside)
            if not nbytes:
                close_fds(fds)
                self._tell("closed its control socket")
                return
            try:
                if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                    raise ControlError(f"a message has more than {MAX_BYTES} bytes or {MAX_FDS} descriptors")
                message = self._decode(self._view[:nbytes])
            except ControlError as error:
                close_fds(fds)
                self._tell(f"sent what cannot be understood ({error})")
                return
            self._on_message(message, fds)

    def _tell(self, reason: str) -> None:
        if not self._closed:
            self.close()
            self._on_end(reason)

    def close(self) -> None:
        """Read and send nothing any more; the other side sees the end. Twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
            self._end.close()
            while self._waiting:
                close_fds(self._waiting.popleft()[1])


def close_fds(fds: Sequence[int]) -> None:
    """Give descriptors back."""
    for fd in fds:
        os.close(fd)


def _fds(beside: Sequence[tuple[int, int, bytes]]) -> Sequence[int]:
    fds = array.array("i")
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()
