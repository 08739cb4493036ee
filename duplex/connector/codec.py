"""Payloads as bytes: a small header, and the arrays as they lie in memory.

The header is msgpack, `[version, kind, facts, [[dtype, shape], ...]]`: `facts` are the fields that are no arrays, and
each array is one buffer, in the order of the list. Nothing in it is executed, and all of it is checked: a header either
gives a payload that is what its kind says, or `MalformedPayload`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from duplex.connector import payload as p
from duplex.connector.kind import Kind
from duplex.connector.payload import Payload
from duplex.connector.tensor import DTYPES, Tensor, Tensors, nbytes_of
from duplex.errors import MalformedPayload

VERSION = 1
"""Of the header; another one is refused."""

Buffer = NDArray[np.uint8]
Specs = list[tuple[str, tuple[int, ...]]]
_P = TypeVar("_P")
_F = TypeVar("_F")
_T = TypeVar("_T", bound=Tensors)
_INT16, _FLOAT32 = np.dtype(np.int16), np.dtype(np.float32)
_encoder = msgspec.msgpack.Encoder()


class _Head(msgspec.Struct, Generic[_F], array_like=True, forbid_unknown_fields=True, frozen=True):
    version: int
    kind: str
    facts: _F
    tensors: Specs


@dataclass(frozen=True, slots=True)
class _Form(Generic[_P, _F]):
    """How one kind becomes facts and tensors, and comes back. Both ways raise ValueError where they do not fit it."""

    decoder: msgspec.msgpack.Decoder[_Head[_F]]
    split: Callable[[_P], tuple[_F, Sequence[Tensor]]]
    join: Callable[[_F, Specs, Sequence[Buffer]], _P]


def _tensor(array: NDArray[Any], dtype: np.dtype[Any], axes: int) -> Tensor:
    if array.dtype != dtype or array.ndim != axes:
        raise ValueError(f"{array.dtype} {list(array.shape)} where {dtype} with {axes} axes belongs")
    return Tensor.of(array)


def _array(spec: tuple[str, tuple[int, ...]], buffer: Buffer, dtype: np.dtype[Any], axes: int) -> NDArray[Any]:
    name, shape = spec
    if DTYPES[name] is not dtype or len(shape) != axes:
        raise ValueError(f"{name} {list(shape)} where {dtype} with {axes} axes belongs")
    return buffer.view(dtype).reshape(shape)


def _samples(specs: Specs, buffers: Sequence[Buffer]) -> NDArray[np.int16]:
    if len(specs) != 1:
        raise ValueError(f"{len(specs)} arrays where one belongs")
    return _array(specs[0], buffers[0], _INT16, 1)


def _split_spectrum(payload: p.Spectrum) -> tuple[tuple[int, int], Sequence[Tensor]]:
    parts = [_tensor(part, _FLOAT32, 2) for part in payload.parts]
    return (payload.text_start, payload.text_end), [*parts, _tensor(payload.f0, _FLOAT32, 1)]


def _join_spectrum(facts: tuple[int, int], specs: Specs, buffers: Sequence[Buffer]) -> p.Spectrum:
    if not specs:
        raise ValueError("no arrays")
    return p.Spectrum(
        parts=tuple(_array(spec, buffer, _FLOAT32, 2) for spec, buffer in zip(specs[:-1], buffers[:-1], strict=True)),
        f0=_array(specs[-1], buffers[-1], _FLOAT32, 1),
        text_start=facts[0],
        text_end=facts[1],
    )


def _bare(kind: type[_P]) -> _Form[_P, _P]:
    """A payload without arrays is its own facts."""

    def join(facts: _P, specs: Specs, buffers: Sequence[Buffer]) -> _P:
        if specs:
            raise ValueError("arrays where none belongs")
        return facts

    return _Form(msgspec.msgpack.Decoder(_Head[kind]), lambda payload: (payload, ()), join)  # type: ignore[valid-type]


def _tensors(kind: type[_T]) -> _Form[_T, tuple[int, bool]]:
    def join(facts: tuple[int, bool], specs: Specs, buffers: Sequence[Buffer]) -> _T:
        tensors = [Tensor(dtype=spec[0], shape=spec[1], data=data) for spec, data in zip(specs, buffers, strict=True)]
        return kind(tensors=tuple(tensors), chunk=facts[0], last=facts[1])

    decoder = msgspec.msgpack.Decoder(_Head[tuple[int, bool]])
    return _Form(decoder, lambda payload: ((payload.chunk, payload.last), payload.tensors), join)


_NUMBERS = msgspec.msgpack.Decoder(_Head[tuple[int, int]])
_FORMS: dict[Kind, _Form[Any, Any]] = {
    Kind.PCM: _Form(
        _NUMBERS,
        lambda payload: ((payload.rate_hz, payload.start), [_tensor(payload.samples, _INT16, 1)]),
        lambda facts, specs, buffers: p.Pcm(samples=_samples(specs, buffers), rate_hz=facts[0], start=facts[1]),
    ),
    Kind.VOICED: _Form(
        _NUMBERS,
        lambda payload: ((payload.rate_hz, payload.text_end), [_tensor(payload.samples, _INT16, 1)]),
        lambda facts, specs, buffers: p.Voiced(samples=_samples(specs, buffers), rate_hz=facts[0], text_end=facts[1]),
    ),
    Kind.SPECTRUM: _Form(_NUMBERS, _split_spectrum, _join_spectrum),
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


class Header(NamedTuple):
    """A header that has been read: `sizes` are the bytes of its buffers, in order."""

    kind: Kind
    facts: Any
    specs: Specs
    sizes: list[int]


def encode(payload: Payload) -> tuple[bytes, list[Buffer]]:
    """The header of a payload, and its buffers: views of its arrays, which must not be written until they have gone.

    Raises:
        MalformedPayload: the payload is not what its kind says (an array of another dtype, a number beyond 64 bits).
    """
    kind = payload.kind
    try:
        facts, tensors = _FORMS[kind].split(payload)
        specs = [(tensor.dtype, tensor.shape) for tensor in tensors]
        return _encoder.encode((VERSION, kind, facts, specs)), [tensor.data for tensor in tensors]
    except (ValueError, OverflowError, TypeError) as error:
        raise MalformedPayload(f"a payload of kind {kind} cannot travel: {error}") from error


def read_header(header: bytes | memoryview, kind: Kind) -> Header:
    """Read the header of a payload that was announced as one of `kind`.

    Raises:
        MalformedPayload: it is none, or one of another version or kind.
    """
    try:
        head = _FORMS[kind].decoder.decode(header)
        if head.version != VERSION or head.kind != kind:
            raise ValueError(f"{head.kind!r} of version {head.version}")
        sizes = [nbytes_of(DTYPES[dtype].itemsize, shape) for dtype, shape in head.tensors]
    except KeyError as error:
        raise MalformedPayload(f"the header of a {kind} names a dtype that is none: {error}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedPayload(f"bytes that should be the header of a {kind} are none: {error}") from error
    return Header(kind, head.facts, head.tensors, sizes)


def decode(header: Header, buffers: Sequence[Buffer]) -> Payload:
    """The payload of a header and its buffers, whose bytes it keeps and does not copy.

    Args:
        header: what `read_header` gave.
        buffers: one for each of its `sizes`, exactly as large, beginning at a multiple of 8 bytes.

    Raises:
        MalformedPayload: they do not make a payload of that kind.
    """
    try:
        payload: Payload = _FORMS[header.kind].join(header.facts, header.specs, buffers)
    except ValueError as error:
        raise MalformedPayload(f"bytes that should be a {header.kind} are none: {error}") from error
    return payload
