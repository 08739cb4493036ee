"""Any payload, of every kind."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from duplex.connector import payload as p
from duplex.connector.tensor import DTYPES, Tensors

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
SAMPLES = npst.arrays(np.int16, st.integers(0, 40))
BINS = npst.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 6)), elements=st.floats(-1, 1, width=32))
TOOLS = st.builds(p.Tool, name=TEXTS, description=TEXTS, parameters=TEXTS)
MESSAGES = st.builds(p.Message, role=TEXTS, text=TEXTS)


@st.composite
def tensors(draw: st.DrawFn) -> p.Tensor:
    dtype, shape = draw(st.sampled_from(sorted(DTYPES))), draw(SHAPES)
    nbytes = math.prod(shape) * DTYPES[dtype].itemsize
    return p.Tensor(dtype=dtype, shape=shape, data=draw(npst.arrays(np.uint8, nbytes)))


def of_tensors(kind: type[Tensors]) -> st.SearchStrategy[Any]:
    some = st.lists(tensors(), max_size=3).map(tuple)
    return st.builds(kind, tensors=some, chunk=st.integers(0, 2**40), last=st.booleans())


BY_KIND: dict[p.Kind, st.SearchStrategy[Any]] = {
    p.Kind.PCM: st.builds(p.Pcm, samples=SAMPLES, rate_hz=INTS, start=INTS),
    p.Kind.MARK: st.builds(p.Mark, mark=st.sampled_from(p.MarkKind), start=INTS, end=INTS),
    p.Kind.SPEECH: st.builds(
        p.Speech,
        start=INTS,
        window=INTS,
        probabilities=st.lists(FLOATS, max_size=4).map(tuple),
        levels=st.lists(FLOATS, max_size=4).map(tuple),
    ),
    p.Kind.END_OF_TURN: st.builds(p.EndOfTurn, end=INTS, probability=FLOATS),
    p.Kind.TRANSCRIPT: st.builds(p.Transcript, text=TEXTS, end=INTS, final=st.booleans()),
    p.Kind.PROMPT: st.builds(
        p.Prompt,
        messages=st.lists(MESSAGES, max_size=3).map(tuple),
        max_tokens=INTS,
        temperature=FLOATS,
        complete=st.booleans(),
        tools=st.lists(TOOLS, max_size=2).map(tuple),
        may_cut=st.booleans(),
    ),
    p.Kind.COMPLETENESS: st.builds(p.Completeness, probability=FLOATS),
    p.Kind.TEXT: st.builds(p.Text, text=TEXTS, start=INTS),
    p.Kind.SPECTRUM: st.builds(
        p.Spectrum,
        parts=st.lists(BINS, max_size=5).map(tuple),
        f0=npst.arrays(np.float32, st.integers(0, 6), elements=st.floats(-1, 1, width=32)),
        text_start=INTS,
        text_end=INTS,
    ),
    p.Kind.VOICED: st.builds(p.Voiced, samples=SAMPLES, rate_hz=INTS, text_end=INTS),
    p.Kind.HIDDEN_STATES: of_tensors(p.HiddenStates),
    p.Kind.CODEC_CODES: of_tensors(p.CodecCodes),
    p.Kind.KV_BLOCKS: of_tensors(p.KVBlocks),
    p.Kind.LATENTS: of_tensors(p.Latents),
    p.Kind.FRAMES: of_tensors(p.Frames),
    p.Kind.ACTIONS: of_tensors(p.Actions),
}
PAYLOADS: st.SearchStrategy[p.Payload] = st.one_of(*BY_KIND.values())


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays by dtype, shape and numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, tuple):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
