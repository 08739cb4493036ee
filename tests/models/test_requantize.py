"""models/requantize: the same weights in fewer kinds of numbers, and the same bytes on every machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from duplex.models.requantize import BLOCK, q4_0, quicken

Q4_0, Q4_1 = gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q4_1


def error(weights: np.ndarray, quantised: np.ndarray) -> float:
    """Of the weights, each counting by its square."""
    back = gguf.quants.dequantize(quantised, Q4_0)
    return float((weights**2 * (back - weights) ** 2).sum())


def test_it_is_nearer_than_without_a_search() -> None:
    weights = np.random.default_rng(1).normal(size=(64, 576)).astype(np.float32)
    assert error(weights, q4_0(weights)) < 0.8 * error(weights, gguf.quants.quantize(weights, Q4_0))


def test_what_can_be_said_exactly_is() -> None:
    numbers = np.tile(np.arange(-8, 8, dtype=np.float32), (3, 2)) * np.float32([[0.5], [-0.25], [2]])
    assert np.array_equal(gguf.quants.dequantize(q4_0(numbers), Q4_0), numbers)
    nothing = np.zeros((2, 2 * BLOCK), np.float32)
    assert np.array_equal(gguf.quants.dequantize(q4_0(nothing), Q4_0), nothing)


@given(npst.arrays(np.float32, st.tuples(st.integers(1, 3), st.just(2 * BLOCK)), elements=st.floats(-8, 8, width=16)))
def test_no_weight_is_further_off_than_a_step(weights: np.ndarray) -> None:
    furthest = np.abs(weights.reshape(-1, BLOCK)).max(1).repeat(BLOCK).reshape(weights.shape)
    back = gguf.quants.dequantize(q4_0(weights), Q4_0)
    assert np.all(np.abs(back - weights) <= furthest / 4 + 1e-6)


def test_the_bytes_are_the_same_everywhere() -> None:
    weights = np.random.default_rng(2).normal(size=(5000, BLOCK)).astype(np.float32)
    assert hashlib.sha256(q4_0(weights).tobytes()).hexdigest() == (
        "12543115742ff828dcb1134cdd4c9a2771d15d4bd86a1fd6cba419ab30fac2d7"
    )


def test_of_a_file_all_else_stays(tmp_path: Path) -> None:
    weights = np.random.default_rng(3).normal(size=(4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "old.gguf", "llama")
    writer.add_uint32("llama.block_count", 7)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_tensor("norm", weights[0])
    for name in ("blk.0.ffn_up.weight", "blk.0.ffn_down.weight"):
        writer.add_tensor(name, gguf.quants.quantize(weights, Q4_1), raw_dtype=Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    quicken(tmp_path / "old.gguf", tmp_path / "new.gguf")
    new = gguf.GGUFReader(tmp_path / "new.gguf")
    assert new.fields["llama.block_count"].contents() == 7
    assert new.fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    norm, up, down = new.tensors
    assert (norm.name, up.name, down.name) == ("norm", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight")
    assert (up.tensor_type, down.tensor_type) == (Q4_0, Q4_1)
    assert np.array_equal(norm.data, weights[0])
    assert np.array_equal(down.data, gguf.quants.quantize(weights, Q4_1))
    assert np.abs(gguf.quants.dequantize(up.data, Q4_0) - weights).max() < 0.5
