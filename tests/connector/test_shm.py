"""The connector over shared memory: what each call refuses, and what happens in the middle of another call."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from duplex.connector import shm
from duplex.connector.arena import MIN_BYTES, Geometry
from duplex.connector.base import Handle, Place
from duplex.connector.payload import Kind, Latents, Payload, Pcm, Tensor, Text, Voiced
from duplex.connector.shm import ShmConnector
from duplex.errors import (
    ConfigError,
    ConnectorClosed,
    ConnectorError,
    ConnectorFull,
    MalformedPayload,
    PeerGone,
    StaleFence,
    UnknownHandle,
)
from duplex.session.fence import Fence
from tests.connector.holder import dies

FENCE = Fence("s", 0, "main", 0)
WORD = Text(text="word", start=0)


@pytest.fixture
def pair() -> Iterator[tuple[ShmConnector, ShmConnector]]:
    with ShmConnector(0, MIN_BYTES) as one, ShmConnector(1, MIN_BYTES) as other:
        one.add_peer(1, other.fd, other.arena_bytes)
        other.add_peer(0, one.fd, one.arena_bytes)
        yield one, other


Pair = tuple[ShmConnector, ShmConnector]


def latents(*sizes: int) -> Latents:
    return Latents(tensors=tuple(Tensor.of(np.full(size, 7, np.uint8)) for size in sizes))


def moved(handle: Handle, **changes: int) -> Handle:
    assert handle.place is not None
    return replace(handle, place=handle.place._replace(**changes))


def test_a_handle_says_of_audio_what_control_must_know(pair: Pair) -> None:
    handle = pair[0].put(FENCE, Voiced(samples=np.arange(7, dtype=np.int16), rate_hz=24_000, text_end=3))
    assert (handle.samples, handle.text_end, handle.nbytes, handle.kind) == (7, 3, 14, Kind.VOICED)
    audio = pair[1].take(handle)
    assert isinstance(audio, Voiced)
    assert (audio.samples.tolist(), audio.rate_hz, audio.text_end) == (list(range(7)), 24_000, 3)


def test_the_last_view_gives_the_slot_back(pair: Pair) -> None:
    one, other = pair
    payload = other.take(one.put(FENCE, latents(100, 200)))
    assert isinstance(payload, Latents)
    part = payload.tensors[1].array()[50:60].reshape(2, 5)
    del payload
    assert len(one) == 1
    with pytest.raises(ValueError, match="read-only"):
        part[:] = 0
    kept = memoryview(part)
    del part
    assert len(one) == 1
    assert kept[0, 0] == 7
    del kept
    assert len(one) == one.nbytes == 0


def test_arrays_begin_where_vectors_may_be_loaded(pair: Pair) -> None:
    payload = pair[1].take(pair[0].put(FENCE, latents(1, 65, 3)))
    assert isinstance(payload, Latents)
    assert [tensor.data.ctypes.data % 64 for tensor in payload.tensors] == [0, 0, 0]


def test_one_process_takes_twice_what_is_shared(pair: Pair) -> None:
    one, other = pair
    handle = one.put(FENCE, latents(10))
    one.share(handle, 3)
    first, second, own = other.take(handle), other.take(handle), one.take(handle)
    with pytest.raises(UnknownHandle, match="has been taken"):
        other.take(handle)
    del first, own
    assert len(one) == 1
    del second
    assert len(one) == 0


def test_sharing_what_is_gone_does_nothing(pair: Pair) -> None:
    one, other = pair
    handle = one.put(FENCE, WORD)
    other.take(handle)
    assert len(one) == 0
    other.share(handle, 2)
    again = one.put(FENCE, WORD)
    other.take(again)
    assert len(one) == 0
    one.drop_peer(1)
    one.share(replace(handle, place=Place(1, 0, 1, 0, 1, 0)), 2)
    for readers in (0, 256):
        with pytest.raises(UnknownHandle):
            one.share(again, readers)


def test_a_turn_that_ends_while_its_payload_is_written(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = pair

    def ends(*_: object) -> None:
        assert one.retire(FENCE) == 0, "it is not given back while somebody writes it"
        assert len(one) == 1

    monkeypatch.setattr(shm, "write", ends)
    with pytest.raises(StaleFence):
        one.put(FENCE, WORD)
    assert len(one) == 0


def test_a_write_that_fails_leaves_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(shm, "write", fails)
    with pytest.raises(MemoryError):
        one.put(FENCE, WORD)
    assert len(one) == 0
    monkeypatch.undo()
    assert other.take(one.put(FENCE, WORD)) == WORD


def test_a_connector_that_is_closed_while_it_writes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = pair
    monkeypatch.setattr(shm, "write", lambda *_: one.close())
    with pytest.raises(ConnectorClosed):
        one.put(FENCE, WORD)


def test_a_closed_connector_gives_and_takes_nothing(pair: Pair) -> None:
    one, other = pair
    handle, theirs = one.put(FENCE, WORD), other.put(FENCE, WORD)
    view = one.take(other.put(FENCE, latents(9)))
    one.close()
    one.close()
    for call in (
        lambda: one.put(FENCE, WORD),
        lambda: one.take(theirs),
        lambda: one.add_peer(1, other.fd, other.arena_bytes),
    ):
        with pytest.raises(ConnectorClosed, match="process 0"):
            call()
    assert one.nbytes == len(one) == one.retire(FENCE) == one.held("s") == one.forget("s") == 0
    one.drop_peer(1)
    assert isinstance(view, Latents)
    assert view.tensors[0].data.tolist() == [7] * 9
    assert other.take(handle) == WORD, "its arena lives for as long as somebody has it"


def test_what_lies_nowhere_is_no_payload(pair: Pair) -> None:
    one, other = pair
    handle = one.put(FENCE, WORD)
    assert handle.place is not None
    wrong = [
        replace(handle, place=None),
        moved(handle, owner=9),
        moved(handle, owner=-1),
        moved(handle, slot=99),
        moved(handle, slot=-1),
        moved(handle, generation=handle.place.generation + 1),
        moved(handle, generation=0, slot=3),
        moved(handle, offset=-64),
        moved(handle, offset=1 << 40),
        moved(handle, length=1 << 40),
        moved(handle, header=-1),
        moved(handle, header=handle.place.length + 1),
    ]
    for one_of_them in wrong:
        with pytest.raises((UnknownHandle, PeerGone)):
            other.take(one_of_them)
    assert other.take(handle) == WORD


def test_bytes_that_are_no_payload_are_refused_and_given_back(pair: Pair) -> None:
    one, other = pair
    for change in ({"length": 10}, {"header": 3}, {"offset": 4096}):
        with pytest.raises(MalformedPayload):
            other.take(moved(one.put(FENCE, WORD), **change))
    with pytest.raises(MalformedPayload):
        other.take(replace(one.put(FENCE, WORD), kind=Kind.PCM))
    handle = one.put(FENCE, latents(64, 64))
    assert handle.place is not None
    place = handle.place._replace(offset=handle.place.offset + 64, length=handle.place.length - 64, header=64)
    with pytest.raises(MalformedPayload, match="where the header says"):
        other.take(replace(handle, place=place))
    assert len(one) == 0
    with pytest.raises(MalformedPayload):
        one.put(FENCE, Pcm(samples=np.zeros(1, np.float64), rate_hz=1))  # type: ignore[arg-type]
    assert len(one) == 0


def test_a_full_arena_refuses_and_goes_on(pair: Pair) -> None:
    one, other = pair
    room = Geometry.of(MIN_BYTES).payloads
    with pytest.raises(ConnectorFull, match=f"0 of {room} in 0 of 16 slots"):
        one.put(FENCE, latents(room))
    views: list[Payload] = [other.take(one.put(FENCE, latents(1))) for _ in range(16)]
    with pytest.raises(ConnectorFull, match="16 of 16 slots"):
        one.put(FENCE, WORD)
    for number in range(16):
        views[number] = latents()  # Lets go of one, wherever it stands in the row of those that are looked at.
        views[number] = other.take(one.put(FENCE, latents(1)))
    one.retire(FENCE)
    views.clear()
    large = one.put(FENCE.next(), latents(room - 64))
    assert one.nbytes == room
    assert other.take(large).nbytes == room - 64


def test_the_tags_of_cells_begin_anew() -> None:
    """What stands in the cell of a process that has not come since counts for no generation that is 24 bits later."""
    with ShmConnector(0, MIN_BYTES, first_generation=0) as one, ShmConnector(1, MIN_BYTES) as other:
        other.add_peer(0, one.fd, one.arena_bytes)
        other.take(one.put(FENCE, WORD))
        assert len(one) == 0, "its slot is free, and the next one to be used"
        one._arena._generations = [(1 << 24) - 2] * 16
        for _ in range(4):
            handle = one.put(FENCE, latents(5))
            view = one.take(handle)
            with pytest.raises(UnknownHandle):
                one.take(handle)
            assert len(one) == 1
            del view
            assert len(one) == 0


def test_a_number_is_used_again_while_a_payload_is_shared(pair: Pair) -> None:
    one, other = pair
    handle = one.put(FENCE, latents(5))
    one.share(handle, 3)
    lost = other.take(handle)
    dies(other)
    del lost
    one.drop_peer(1)
    with ShmConnector(1, MIN_BYTES) as again:
        again.add_peer(0, one.fd, one.arena_bytes)
        first, second = again.take(handle), again.take(handle)
        del first
        assert len(one) == 1
        del second
        assert len(one) == 0


def test_what_cannot_be_is_said() -> None:
    for number in (-1, 64):
        with pytest.raises(ConfigError, match="0 to 63"):
            ShmConnector(number, MIN_BYTES)
    with pytest.raises(ConfigError, match="give it 65536 or more"):
        ShmConnector(0, MIN_BYTES - 1)
    with pytest.raises(ConfigError, match="make it smaller"):
        ShmConnector(0, 1 << 60)
    with ShmConnector(0, MIN_BYTES + 1) as one:
        assert one.arena_bytes == MIN_BYTES + 4096
        for number in (0, -1, 64):
            with pytest.raises(ConfigError, match="no number of a peer"):
                one.add_peer(number, one.fd, one.arena_bytes)
        with pytest.raises(ConnectorError, match="no arena of 65536 bytes"):
            one.add_peer(1, one.fd, MIN_BYTES)
        unsealed = os.memfd_create("unsealed")
        os.ftruncate(unsealed, MIN_BYTES)
        with pytest.raises(ConnectorError, match="no arena"):
            one.add_peer(1, unsealed, MIN_BYTES)
        os.close(unsealed)
        with pytest.raises(ConnectorError, match="no arena"):
            one.add_peer(1, unsealed, MIN_BYTES)
        one.drop_peer(0)
        assert one.take(one.put(FENCE, WORD)) == WORD, "nobody drops himself"


def test_threads_lose_and_double_nothing() -> None:
    with ShmConnector(0, 1 << 20) as one, ShmConnector(1, 1 << 20) as other:
        other.add_peer(0, one.fd, one.arena_bytes)
        taken: list[int] = []

        def work(number: int) -> None:
            for count in range(300):
                handle = one.put(FENCE, Latents(tensors=(Tensor.of(np.full(99, number, np.uint8)),), chunk=count))
                one.share(handle, 2)
                first, second = other.take(handle), other.take(handle)
                assert isinstance(first, Latents)
                assert isinstance(second, Latents)
                assert first.tensors[0].data.tobytes() == second.tensors[0].data.tobytes() == bytes([number]) * 99
                taken.append(first.chunk)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1200
        assert one.nbytes == len(one) == 0
