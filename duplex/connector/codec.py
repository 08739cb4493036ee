"""Payloads as bytes: a small header, and the arrays as they lie in memory.

The header is msgpack, `[version, kind, facts, [[dtype, shape], ...]]`: `facts` are the fields that are no arrays, and
each array is one buffer, in the order of the list. Nothing in it is executed, and all of it is checked: a header either
gives a payload that is what its kind says, or `MalformedPayload`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from duplex.connector import payload as p
from duplex.connector.kind import Kind
from duplex.connector.payload import Payload
from duplex.connector.tensor import DTYPES, Tensor, Tensors
from duplex.errors import MalformedPayload

VERSION = 1
"""Of the header; another one is refused."""

Buffer = NDArray[np.uint8]
_P = TypeVar("_P")
_F = TypeVar("_F")
_encoder = msgspec.msgpack.Encoder()


class _Spec(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    dtype: str
    shape: tuple[int, ...]


class _Head(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    version: int
    kind: Kind
    facts: msgspec.Raw
    tensors: tuple[_Spec, ...]


class _PcmFacts(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    rate_hz: int
    start: int


class _VoicedFacts(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    rate_hz: int
    text_end: int


class _SpectrumFacts(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    text_start: int
    text_end: int


class _ChunkFacts(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    chunk: int
    last: bool


@dataclass(frozen=True, slots=True)
class _Form(Generic[_P, _F]):
    """How one kind becomes facts and tensors, and comes back. `join` raises ValueError where they do not fit it."""

    type: type[_P]
    decoder: msgspec.msgpack.Decoder[_F]
    split: Callable[[_P], tuple[_F, tuple[Tensor, ...]]]
    join: Callable[[_F, Sequence[Tensor]], _P]


def _array(tensor: Tensor, dtype: str, axes: int) -> NDArray[Any]:
    if tensor.dtype != dtype or len(tensor.shape) != axes:
        raise ValueError(f"{tensor.dtype} {list(tensor.shape)} where {dtype} with {axes} axes belongs")
    return tensor.array()


def _samples(tensors: Sequence[Tensor]) -> NDArray[np.int16]:
    if len(tensors) != 1:
        raise ValueError(f"{len(tensors)} arrays where one belongs")
    return _array(tensors[0], "int16", 1)


def _bare(kind: type[_P]) -> _Form[_P, _P]:
    """A payload without arrays is its own facts."""

    def join(facts: _P, tensors: Sequence[Tensor]) -> _P:
        if tensors:
            raise ValueError("arrays where none belongs")
        return facts

    return _Form(kind, msgspec.msgpack.Decoder(kind), lambda payload: (payload, ()), join)


_T = TypeVar("_T", bound=Tensors)


def _tensors(kind: type[_T]) -> _Form[_T, _ChunkFacts]:
    return _Form(
        kind,
        msgspec.msgpack.Decoder(_ChunkFacts),
        lambda payload: (_ChunkFacts(payload.chunk, payload.last), payload.tensors),
        lambda facts, tensors: kind(tensors=tuple(tensors), chunk=facts.chunk, last=facts.last),
    )


def _split_spectrum(payload: p.Spectrum) -> tuple[_SpectrumFacts, tuple[Tensor, ...]]:
    arrays = (*payload.parts, payload.f0)
    return _SpectrumFacts(payload.text_start, payload.text_end), tuple(Tensor.of(array) for array in arrays)


def _join_spectrum(facts: _SpectrumFacts, tensors: Sequence[Tensor]) -> p.Spectrum:
    if not tensors:
        raise ValueError("no arrays")
    *parts, f0 = tensors
    return p.Spectrum(
        parts=tuple(_array(part, "float32", 2) for part in parts),
        f0=_array(f0, "float32", 1),
        text_start=facts.text_start,
        text_end=facts.text_end,
    )


_FORMS: dict[Kind, _Form[Any, Any]] = {
    Kind.PCM: _Form(
        p.Pcm,
        msgspec.msgpack.Decoder(_PcmFacts),
        lambda payload: (_PcmFacts(payload.rate_hz, payload.start), (Tensor.of(payload.samples),)),
        lambda facts, tensors: p.Pcm(samples=_samples(tensors), rate_hz=facts.rate_hz, start=facts.start),
    ),
    Kind.VOICED: _Form(
        p.Voiced,
        msgspec.msgpack.Decoder(_VoicedFacts),
        lambda payload: (_VoicedFacts(payload.rate_hz, payload.text_end), (Tensor.of(payload.samples),)),
        lambda facts, tensors: p.Voiced(samples=_samples(tensors), rate_hz=facts.rate_hz, text_end=facts.text_end),
    ),
    Kind.SPECTRUM: _Form(p.Spectrum, msgspec.msgpack.Decoder(_SpectrumFacts), _split_spectrum, _join_spectrum),
    Kind.MARK: _bare(p.Mark),
    Kind.SPEECH: _bare(p.Speech),
    Kind.END_OF_TURN: _bare(p.EndOfTurn),
    Kind.TRANSCRIPT: _bare(p.Transcript),
    Kind.PROMPT: _bare(p.Prompt),
    Kind.COMPLETENESS: _bare(p.Completeness),
    Kind.TEXT: _bare(p.Text),
    Kind.HIDDEN_STATES: _tensors(p.HiddenStates),
    Kind.CODEC_CODES: _tensors(p.CodecCodes),
    Kind.KV_BLOCKS: _tensors(p.KVBlocks),
    Kind.LATENTS: _tensors(p.Latents),
    Kind.FRAMES: _tensors(p.Frames),
    Kind.ACTIONS: _tensors(p.Actions),
}
_heads = msgspec.msgpack.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class Header:
    """A header that has been read: `sizes` are the bytes of its buffers, in order."""

    head: _Head
    sizes: tuple[int, ...]


def encode(payload: Payload) -> tuple[bytes, list[Buffer]]:
    """The header of a payload, and its buffers: views of its arrays, which must not be written until they have gone.

    Raises:
        MalformedPayload: the payload is not what its kind says (an array of another dtype, a number beyond 64 bits).
    """
    form = _FORMS[payload.kind]
    try:
        facts, tensors = form.split(payload)
        form.join(facts, tensors)
        specs = tuple(_Spec(tensor.dtype, tensor.shape) for tensor in tensors)
        head = _Head(VERSION, payload.kind, msgspec.Raw(_encoder.encode(facts)), specs)
        return _encoder.encode(head), [tensor.data for tensor in tensors]
    except (ValueError, OverflowError, TypeError) as error:
        raise MalformedPayload(f"a payload of kind {payload.kind} cannot travel: {error}") from error


def read_header(header: bytes | memoryview) -> Header:
    """Read a header.

    Raises:
        MalformedPayload: it is none, or one of another version.
    """
    try:
        head = _heads.decode(header)
        if head.version != VERSION:
            raise MalformedPayload(f"a header of version {head.version}, where {VERSION} is spoken")
        sizes = []
        for spec in head.tensors:
            if spec.dtype not in DTYPES or any(axis < 0 for axis in spec.shape):
                raise MalformedPayload(f"a {head.kind} with an array of {spec.dtype!r} {list(spec.shape)}")
            sizes.append(math.prod(spec.shape) * DTYPES[spec.dtype].itemsize)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedPayload(f"bytes that should be the header of a payload are none: {error}") from error
    return Header(head, tuple(sizes))


def decode(header: Header, buffers: Sequence[Buffer]) -> Payload:
    """The payload of a header and its buffers, whose bytes it keeps and does not copy.

    Raises:
        MalformedPayload: they do not make a payload of that kind.
    """
    head = header.head
    try:
        form = _FORMS[head.kind]
        facts = form.decoder.decode(head.facts)
        tensors = [
            Tensor(dtype=spec.dtype, shape=spec.shape, data=buffer)
            for spec, buffer in zip(head.tensors, buffers, strict=True)
        ]
        payload: Payload = form.join(facts, tensors)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedPayload(f"bytes that should be a payload of kind {head.kind} are none: {error}") from error
    return payload
