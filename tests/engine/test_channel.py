"""One end of a control socket on a real loop, and a plain socket at the other."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from duplex.engine.channel import BURST, Channel, close_fds
from duplex.engine.wire import Abort, Beat, Forget, Stop, ToHost, decode_for_host, decode_for_process, encode
from duplex.session.fence import Fence

pytestmark = pytest.mark.anyio


class End:
    def __init__(self, most_waiting: int = 5) -> None:
        ours, self.other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.other.settimeout(10)
        self.messages: list[ToHost] = []
        self.fds: list[int] = []
        self.ends: list[str] = []
        self._changed = asyncio.Event()
        self.channel: Channel[ToHost] = Channel(
            end=ours,
            decode=decode_for_host,
            on_message=self._message,
            on_end=self._end,
            most_waiting=most_waiting,
        )

    def _message(self, message: ToHost, fds: Sequence[int]) -> None:
        self.messages.append(message)
        self.fds += fds
        self._changed.set()

    def _end(self, reason: str) -> None:
        self.ends.append(reason)
        self._changed.set()

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    def fill(self) -> int:
        """Send until the kernel takes no more; returns how many it took."""
        count = 0
        while not self.channel.waiting:
            self.channel.send(Forget(session_id=str(count)))
            count += 1
        return count - 1


@pytest.fixture
async def end() -> AsyncIterator[End]:
    made = End()
    yield made
    made.channel.close()
    made.channel.close()
    made.other.close()


async def test_descriptors_travel_beside_a_message(end: End) -> None:
    read, write = os.pipe()
    end.channel.send(Stop(), (write,))
    data, fds, _, _ = socket.recv_fds(end.other, 100, 4)
    assert decode_for_process(data) == Stop()
    os.write(fds[0], b"x")
    assert os.read(read, 1) == b"x"
    socket.send_fds(end.other, [encode(Beat(active={}))], [read])
    await end.changed()
    assert not os.get_inheritable(end.fds[0])
    os.write(write, b"y")
    assert os.read(end.fds[0], 1) == b"y"
    close_fds([read, write, *fds, *end.fds])


async def test_what_the_kernel_does_not_take_waits_and_keeps_its_order(end: End) -> None:
    taken = end.fill()
    read, write = os.pipe()
    end.channel.send(Stop(), (write,))
    os.close(write)
    assert end.channel.waiting == 2
    told = [decode_for_process(end.other.recv(100)) for _ in range(taken)]
    told.append(decode_for_process(await asyncio.to_thread(end.other.recv, 100)))
    assert told == [Forget(session_id=str(number)) for number in range(taken + 1)]
    data, fds, _, _ = socket.recv_fds(end.other, 100, 4)
    assert decode_for_process(data) == Stop()
    close_fds([read, *fds])


async def test_too_many_that_wait_are_the_end_and_it_is_told_later(end: End) -> None:
    end.fill()
    for _ in range(10):
        end.channel.send(Stop())
    assert end.channel.waiting == 5
    assert end.ends == []
    await end.changed()
    end.channel.send(Stop())
    assert end.ends == ["does not read: 5 messages wait for it"]
    assert end.channel.waiting == 0


async def test_what_was_said_before_the_end_is_heard(end: End) -> None:
    end.channel.send(Stop())  # Unread at the other end: closing it is an error here, and what it said must not be lost.
    for number in range(3):
        end.other.send(encode(Beat(active={"x": number})))
    end.other.close()
    while not end.ends:
        await end.changed()
    assert [message.active["x"] for message in end.messages if isinstance(message, Beat)] == [0, 1, 2]
    assert end.ends == ["closed its control socket"]
    end.channel.send(Stop())


async def test_one_who_talks_much_does_not_hold_the_loop(end: End) -> None:
    for _ in range(BURST + 1):
        end.other.send(encode(Beat(active={})))
    end.channel.read()
    assert len(end.messages) == BURST


@pytest.mark.parametrize("data", [b"nonsense", encode(Abort(stage="x", fence=Fence("s", 0, "m", 1))), b"x" * 70_000])
async def test_nonsense_is_the_end_and_leaves_no_descriptor(end: End, data: bytes) -> None:
    read, write = os.pipe()
    before = len(os.listdir("/proc/self/fd"))
    socket.send_fds(end.other, [data], [read])
    if len(data) < 1000:  # a longer one fills the socket
        end.other.send(encode(Beat(active={})))
    await end.changed()
    (reason,) = end.ends
    assert reason.startswith("sent what cannot be understood (")
    assert end.messages == []
    assert len(os.listdir("/proc/self/fd")) == before - 1, "its own end is closed as well"
    close_fds([read, write])


async def test_threads_may_send_at_once(end: End) -> None:
    def talk(name: str) -> None:
        for number in range(50):
            end.channel.send(Forget(session_id=f"{name}{number}"))

    threads = [threading.Thread(target=talk, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [decode_for_process(end.other.recv(100)) for _ in range(100)]
    for name in "ab":
        own = [message.session_id for message in told if isinstance(message, Forget) and message.session_id[0] == name]
        assert own == [f"{name}{number}" for number in range(50)]
