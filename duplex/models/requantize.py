"""A language model's file in a kind of numbers that is quicker to compute with: some of its Q4_1 made Q4_0.

llama.cpp interleaves the rows of a Q4_0 matrix when it loads it, and multiplies eight of them at a time; for Q4_1 it
has no such thing. What it costs is one number less per 32 weights, which lay about the middle of their range and lie
about zero now, so only two of the seven matrices of a layer are made anew: those that begin its feed-forward network,
which are large and lose little. On one core without AVX-512 a prompt was read in 0.7 of the time and an answer written
in 0.9 (all matrices: 0.55 and 0.75); what the model thought of some six hundred unfinished sentences (`Completeness`)
moved by 0.06 on average (all matrices: 0.10), and where a turn ends did not.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Weights that share a scale."""

QUICK = (".ffn_gate.", ".ffn_up.")
"""Parts of the names of those tensors."""

_STEPS = range(-9, 10)
_CHUNK = 4096

Floats = NDArray[np.float32]


def q4_0(weights: Floats) -> NDArray[np.uint8]:
    """Quantise rows of weights: float32 [..., n], n a multiple of 32, to uint8 [..., n / 32 * 18].

    A block is its scale as float16 and 32 numbers of four bits, -8 to 7, whose first half lies in the low bits. Of the
    scales that put the weight which is furthest from zero near -8, the one is taken whose error is least, each weight's
    counting by its square: what llama.cpp's own quantizer does (`make_qx_quants`). Sums are made one weight after the
    other, not by the library's own order, so that every machine makes the same file.
    """
    blocks = np.ascontiguousarray(weights.reshape(-1, BLOCK), dtype=np.float32)
    out = np.empty((len(blocks), 18), np.uint8)
    for start in range(0, len(blocks), _CHUNK):
        part = blocks[start : start + _CHUNK]
        scale, numbers = _best(np.ascontiguousarray(part.T))
        out[start : start + _CHUNK, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
        out[start : start + _CHUNK, 2:] = (numbers[:16] | numbers[16:] << 4).T
    return out.reshape(*weights.shape[:-1], weights.shape[-1] // BLOCK * 18)


def _best(block: Floats) -> tuple[Floats, NDArray[np.uint8]]:
    """Of blocks float32 [32, n]: the scales, float32 [n], and the numbers, 0 to 15, uint8 [32, n]."""
    furthest = np.take_along_axis(block, np.abs(block).argmax(0)[None], 0)[0]
    some = furthest != 0
    importance = block * block
    best = np.full(block.shape[1], -1, np.float32)
    scale = np.zeros_like(best)
    numbers = np.zeros(block.shape, np.float32)
    for step in _STEPS:
        inverse = np.divide(np.float32(-(8 + 0.1 * step)), furthest, out=np.zeros_like(furthest), where=some)
        tried = np.clip(np.rint(block * inverse), np.float32(-8), np.float32(7))
        weighed = importance * tried
        along, length = _sum(weighed * block), _sum(weighed * tried)
        fits = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
        gained = fits * along  # by how much the error is less than without any weight
        better = gained > best
        best, scale = np.where(better, gained, best), np.where(better, fits, scale)
        np.copyto(numbers, tried, where=better)
    return scale, (numbers + 8).astype(np.uint8)


def _sum(rows: Floats) -> Floats:
    total: Floats = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def quicken(source: Path, target: Path) -> None:
    """Write a GGUF file anew: of its Q4_1 tensors those named in `QUICK` as Q4_0, and all else as it is."""
    old = gguf.GGUFReader(source)
    new = gguf.GGUFWriter(target, old.fields["general.architecture"].contents())
    for name, field in old.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind, *_ = field.types
        new.add_key_value(
            name, field.contents(), kind, sub_type=field.types[-1] if kind is gguf.GGUFValueType.ARRAY else None
        )
    for tensor in old.tensors:
        quick = any(name in tensor.name for name in QUICK)
        if quick and tensor.tensor_type is gguf.GGMLQuantizationType.Q4_1:
            weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            new.add_tensor(tensor.name, q4_0(weights), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        else:
            new.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    new.write_header_to_file()
    new.write_kv_data_to_file()
    new.write_tensors_to_file()
    new.close()
