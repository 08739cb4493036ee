"""Payloads as bytes: every kind comes back as it was, and what is no payload is refused and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.connector.codec import VERSION, decode, encode, read_header
from duplex.connector.payload import Kind, Latents, Payload, Pcm, Spectrum, Tensor, Text
from duplex.errors import MalformedPayload
from tests.connector.payloads import BY_KIND, PAYLOADS, same, tensors


def test_every_kind_is_tried() -> None:
    assert set(BY_KIND) == set(Kind)


@given(PAYLOADS)
def test_a_payload_comes_back_as_it_was(payload: Payload) -> None:
    header, buffers = encode(payload)
    read = read_header(header, payload.kind)
    assert read.sizes == [buffer.nbytes for buffer in buffers]
    again = decode(read, [buffer.copy() for buffer in buffers])
    assert same(again, payload)
    assert again.nbytes == payload.nbytes


@given(PAYLOADS)
def test_arrays_are_neither_copied_out_nor_in(payload: Payload) -> None:
    header, buffers = encode(payload)
    again = decode(read_header(header, payload.kind), buffers)
    for buffer, other in zip(buffers, encode(again)[1], strict=True):
        assert buffer.nbytes == 0 or np.shares_memory(buffer, other)


@given(PAYLOADS, st.data())
def test_a_damaged_header_is_refused_or_is_another_payload(payload: Payload, data: st.DataObject) -> None:
    header, buffers = encode(payload)
    damaged = bytearray(header)
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    kind = data.draw(st.sampled_from(Kind)) if data.draw(st.booleans()) else payload.kind
    try:
        read = read_header(bytes(damaged), kind)
        again = decode(read, [np.zeros(size, np.uint8) for size in read.sizes] if sum(read.sizes) < 1e6 else buffers)
    except MalformedPayload:
        return
    assert again.kind == kind
    encode(again)


@given(st.binary(max_size=60), st.sampled_from(Kind))
def test_noise_is_no_header(noise: bytes, kind: Kind) -> None:
    with pytest.raises(MalformedPayload):
        read_header(noise, kind)


@given(tensors())
def test_a_tensor_is_the_same_by_its_array(tensor: Tensor) -> None:
    array = tensor.array()
    assert array.shape == tensor.shape
    assert same(Tensor.of(array, dtype=tensor.dtype), tensor)


def test_bfloat16_travels_as_its_bits() -> None:
    bits = np.array([[0x3F80, 0xC000], [0x7FC1, 0x0001]], np.uint16)  # 1, -2, a NaN with a payload, the smallest
    payload = Latents(tensors=(Tensor.of(bits, dtype="bfloat16"),), chunk=3, last=True)
    header, buffers = encode(payload)
    again = decode(read_header(header, Kind.LATENTS), buffers)
    assert isinstance(again, Latents)
    assert (again.tensors[0].dtype, again.tensors[0].shape, again.nbytes) == ("bfloat16", (2, 2), 8)
    assert np.array_equal(again.tensors[0].array(), bits)


def test_what_is_not_contiguous_is_copied() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T
    assert np.array_equal(Tensor.of(array).array(), array)


SAMPLES = np.zeros(4, np.int16)


@pytest.mark.parametrize(
    "payload",
    [
        Pcm(samples=np.zeros(4, np.float32), rate_hz=1),  # type: ignore[arg-type]
        Pcm(samples=np.zeros((2, 2), np.int16), rate_hz=1),
        Pcm(samples=SAMPLES, rate_hz=2**64),
        Spectrum(parts=(np.zeros(3, np.float32),), f0=np.zeros(3, np.float32), text_start=0, text_end=0),
        Text(text="\ud800", start=0),
    ],
)
def test_what_is_not_of_its_kind_does_not_leave(payload: Payload) -> None:
    with pytest.raises(MalformedPayload, match=payload.kind):
        encode(payload)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (Kind.PCM, (VERSION + 1, "pcm", (1, 0), [("int16", (4,))])),
        (Kind.VOICED, (VERSION, "pcm", (1, 0), [("int16", (4,))])),
        (Kind.PCM, (VERSION, "pcm", (1, 0), [("complex64", (1,))])),
        (Kind.PCM, (VERSION, "pcm", (1, 0), [("int16", (-4,))])),
        (Kind.LATENTS, (VERSION, "latents", (0, True), [("int8", (0, 2**62))])),
        (Kind.LATENTS, (VERSION, "latents", (0, True), [("int8", (1,) * 17)])),
    ],
)
def test_a_header_that_cannot_be_is_refused(kind: Kind, head: Any) -> None:
    with pytest.raises(MalformedPayload, match=kind):
        read_header(msgspec.msgpack.encode(head), kind)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (Kind.PCM, (VERSION, "pcm", (1, 0), [])),
        (Kind.PCM, (VERSION, "pcm", (1, 0), [("int16", (4,)), ("int16", (4,))])),
        (Kind.PCM, (VERSION, "pcm", (1, 0), [("int16", (2, 2))])),
        (Kind.PCM, (VERSION, "pcm", (1, 0), [("bfloat16", (4,))])),
        (Kind.SPECTRUM, (VERSION, "spectrum", (1, 0), [])),
        (Kind.END_OF_TURN, (VERSION, "end_of_turn", {"end": 1, "probability": 0.5}, [("int16", (4,))])),
    ],
)
def test_arrays_that_do_not_fit_the_kind_are_refused(kind: Kind, head: Any) -> None:
    read = read_header(msgspec.msgpack.encode(head), kind)
    with pytest.raises(MalformedPayload, match=kind):
        decode(read, [np.zeros(size, np.uint8) for size in read.sizes])


def test_buffers_of_another_size_are_refused() -> None:
    header, _ = encode(Latents(tensors=(Tensor.of(SAMPLES),)))
    for buffers in ([], [np.zeros(7, np.uint8)], [np.zeros(8, np.uint8)] * 2):
        with pytest.raises(MalformedPayload):
            decode(read_header(header, Kind.LATENTS), buffers)


def test_a_tensor_is_what_it_says() -> None:
    for dtype, shape, nbytes in (("float32", (2,), 7), ("complex64", (1,), 8), ("int8", (-1, -1), 1)):
        with pytest.raises(ValueError, match=r"tensor|bytes|dtype"):
            Tensor(dtype=dtype, shape=shape, data=np.zeros(nbytes, np.uint8))
    with pytest.raises(ValueError, match="cannot travel"):
        Tensor.of(np.zeros(1, np.complex64))
    with pytest.raises(ValueError, match="cannot travel"):
        Tensor.of(np.zeros(1, np.float32), dtype="bfloat16")
