"""Tensors between stages, and the payloads that consist of them.

Whoever uses these imports them from `duplex.connector.payload`, where every payload is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duplex.connector.kind import Kind

DTYPES: dict[str, np.dtype[Any]] = {
    **{
        name: np.dtype(name)
        for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
    "bfloat16": np.dtype("uint16"),
    "float8_e4m3fn": np.dtype("uint8"),
    "float8_e5m2": np.dtype("uint8"),
}
"""The dtypes that travel, by the names that frameworks give them, and how numpy holds each. What numpy does not have is
held as its bits."""

_BYTE = np.dtype(np.uint8)
_NAMES = {dtype: name for name, dtype in reversed(DTYPES.items())}

MAX_AXES = 16
MAX_NUMBERS = 1 << 48
"""Of one tensor, axes of 0 counted as 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """An array with the dtype that it has in its framework.

    Attributes:
        dtype: one of `DTYPES`.
        shape: its axes; () is a single number.
        data: its bytes, uint8 [n], in C order and in the byte order of the machine.

    Raises:
        ValueError: there is no such dtype, or `data` has not as many bytes as dtype and shape say.
    """

    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]

    def __post_init__(self) -> None:
        held = DTYPES.get(self.dtype)
        if held is None:
            raise ValueError(f"{self.dtype!r} is no dtype that travels: take one of {', '.join(DTYPES)}")
        wanted = nbytes_of(held.itemsize, self.shape)
        if self.data.shape != (wanted,) or self.data.dtype != _BYTE:
            raise ValueError(f"{self.dtype} {list(self.shape)} is {wanted} bytes, not {self.data.nbytes}")

    @classmethod
    def of(cls, array: NDArray[Any], *, dtype: str | None = None) -> Tensor:
        """The tensor of a numpy array; copies only what is not contiguous.

        Args:
            array: what numpy holds.
            dtype: what it is where numpy has only its bits, for example "bfloat16" of a uint16 array.

        Raises:
            ValueError: an array of this dtype cannot travel, or is no array of the bits of `dtype`.
        """
        name = _NAMES.get(array.dtype) if dtype is None else dtype
        if name is None or DTYPES.get(name) != array.dtype:
            raise ValueError(f"an array of {array.dtype} cannot travel as {name}")
        return cls(dtype=name, shape=array.shape, data=flat(array))

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def array(self) -> NDArray[Any]:
        """A view with the tensor's shape; a dtype that numpy does not have comes as its bits (bfloat16 as uint16)."""
        return self.data.view(DTYPES[self.dtype]).reshape(self.shape)


def flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array in C order, uint8 [n]: a view where it is contiguous, else a copy."""
    return (array if array.flags.c_contiguous else np.ascontiguousarray(array)).reshape(-1).view(_BYTE)


def nbytes_of(itemsize: int, shape: tuple[int, ...]) -> int:
    """Bytes of an array.

    Raises:
        ValueError: there is no array of this shape.
    """
    nbytes, span = itemsize, 1
    for axis in shape:
        nbytes *= axis
        span *= axis or 1
        # Where one axis is 0 nothing else bounds the others, and numpy refuses what would be too large.
        if axis < 0 or span > MAX_NUMBERS:
            raise ValueError(f"a tensor cannot have the shape {list(shape)}")
    if len(shape) > MAX_AXES:
        raise ValueError(f"a tensor cannot have {len(shape)} axes")
    return nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """What all payloads of tensors have.

    Attributes:
        tensors: at least one where the payload is not only the mark of the end.
        chunk: number of this payload on its edge in its turn, from 0.
        last: nothing follows, so that there were `chunk` + 1 payloads: one that is missing is known to be.
    """

    tensors: tuple[Tensor, ...]
    chunk: int = 0
    last: bool = False

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStates(Tensors):
    """What a language model thinks at consecutive tokens: [tokens, width], one tensor per layer that was asked for."""

    kind = Kind.HIDDEN_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCodes(Tensors):
    """Codes of a neural audio codec: integers [codebooks, frames]."""

    kind = Kind.CODEC_CODES


@dataclass(frozen=True, slots=True, kw_only=True)
class KVBlocks(Tensors):
    """Blocks of an attention cache, one tensor per layer; their axes are an agreement of the two engines."""

    kind = Kind.KV_BLOCKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Latents(Tensors):
    """What a diffusion model or a world model works on: [channels, ...]."""

    kind = Kind.LATENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames(Tensors):
    """Pictures: uint8 [frames, height, width, 3]."""

    kind = Kind.FRAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions(Tensors):
    """What a robot is to do: [steps, joints]."""

    kind = Kind.ACTIONS
