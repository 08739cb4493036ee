"""Shared memory between real processes: readers and owners that are killed, and a race for bytes that are retired."""

from __future__ import annotations

import gc
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from duplex.connector.base import Handle
from duplex.connector.payload import Latents, Tensor, Text
from duplex.connector.shm import ShmConnector
from duplex.errors import ConnectorFull, PeerGone, StaleFence, UnknownHandle
from duplex.session.fence import Fence
from tests.connector.holder import ARENA_BYTES, holder

FENCE = Fence("s", 0, "main", 0)


def latents(number: int, *, size: int = 5_000) -> Latents:
    return Latents(tensors=(Tensor.of(np.full(size, number % 251, np.uint8)),), chunk=number)


@pytest.fixture
def connector() -> Iterator[ShmConnector]:
    with ShmConnector(0, ARENA_BYTES) as connector:
        yield connector


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_what_a_killed_reader_held_is_free_again(connector: ShmConnector) -> None:
    with holder(connector, 1) as dying, holder(connector, 2) as living:
        for number in range(6):
            handle = connector.put(FENCE, latents(number))
            assert (living if number % 2 else dying).give(handle) == b"1"
        one, other = connector.put(FENCE, latents(6)), connector.put(FENCE, latents(7))
        connector.share(one, 2)
        assert dying.give(one) == living.give(one) == b"1"
        assert len(connector) == 8
        dying.kill()
        assert len(connector) == 8, "nobody has said yet that it is dead"
        connector.drop_peer(1)
        assert len(connector) == 5, "three that the other holds, the shared one, and the one that nobody has taken"
        assert living.give(other) == b"1"
        connector.retire(FENCE)
        assert len(connector) == 5
        living.kill()
        connector.drop_peer(2)
        assert len(connector) == connector.nbytes == 0


def test_a_dead_owner_is_known_at_once_and_what_was_taken_stays(connector: ShmConnector) -> None:
    with holder(connector, 1) as dying:
        assert dying.give(connector.put(FENCE, latents(42))) == b"1"
        first, second = dying.put(FENCE), dying.put(FENCE)
        view = connector.take(first)
        dying.kill()
        connector.drop_peer(1)
        with pytest.raises(PeerGone, match="process 1 has ended"):
            connector.take(second)
        assert isinstance(view, Latents)
        assert (view.tensors[0].array() == 42).all()
        with holder(connector, 1):
            with pytest.raises(UnknownHandle, match="is gone"):
                connector.take(second)
            assert (view.tensors[0].array() == 42).all()


def test_a_retired_fence_reaches_no_reader(connector: ShmConnector) -> None:
    with holder(connector, 1) as reader:
        handle = connector.put(FENCE, latents(1))
        assert connector.retire(FENCE) == 5_056 + 64
        assert reader.give(handle) == b"0"
        with pytest.raises(StaleFence):
            connector.put(FENCE, latents(2))


def test_nothing_is_left_of_many_deaths(connector: ShmConnector) -> None:
    before, shm = descriptors(), os.listdir("/dev/shm")
    for _ in range(3):
        with holder(connector, 1) as dying:
            while True:
                try:
                    assert dying.give(connector.put(FENCE, latents(3, size=20_000))) == b"1"
                except ConnectorFull:
                    break
            dying.kill()
            connector.drop_peer(1)
            assert connector.nbytes == 0
    assert descriptors() == before
    assert os.listdir("/dev/shm") == shm


def test_no_reader_sees_bytes_of_another_payload(connector: ShmConnector) -> None:
    """The owner retires turns and fills their room again, while the reader takes and holds."""
    draw, fence, puts = random.Random(0), FENCE, 0
    with holder(connector, 1, "race") as reader:
        for number in range(4_000):
            try:
                handle = connector.put(fence, latents(number, size=draw.choice((100, 5_000, 40_000))))
            except ConnectorFull:
                connector.retire(fence)
                fence = fence.next()
                continue
            puts += 1
            reader.socket.send(msgspec.msgpack.encode(handle))
            if draw.random() < 0.3:
                connector.retire(fence)
                fence = fence.next()
        reader.socket.shutdown(socket.SHUT_WR)
        taken, refused = map(int, reader.socket.recv(100).split())
        assert taken + refused == puts
        assert min(taken, refused) > 0
        connector.retire(fence)
        assert connector.nbytes == 0


def test_a_closed_connector_leaves_no_descriptor() -> None:
    before = descriptors()
    with ShmConnector(0, ARENA_BYTES) as one, ShmConnector(1, ARENA_BYTES) as other:
        other.add_peer(0, one.fd, one.arena_bytes)
        assert other.take(one.put(FENCE, Text(text="word", start=0))) == Text(text="word", start=0)
        assert not os.get_inheritable(one.fd)
        assert "memfd:duplex-arena" in Path(f"/proc/self/fd/{one.fd}").readlink().name
    assert descriptors() == before


def test_a_handle_travels_as_a_hundred_bytes(connector: ShmConnector) -> None:
    handle = connector.put(FENCE, latents(1))
    encoded = msgspec.msgpack.encode(handle)
    assert msgspec.msgpack.decode(encoded, type=Handle) == handle
    assert len(encoded) < 130
