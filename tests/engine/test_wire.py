"""Every message survives its journey, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.connector.base import Handle
from duplex.connector.payload import Kind
from duplex.engine import wire
from duplex.engine.base import StageFinished, StageOptions, StageOutput, StageRequest
from duplex.errors import ControlError
from duplex.session.fence import Fence

numbers = st.integers(0, 2**62)
words = st.text(max_size=40)
fences = st.builds(Fence, words, numbers, words, numbers)
handles = st.builds(
    Handle, fence=fences, kind=st.sampled_from(Kind), key=numbers, nbytes=numbers, samples=numbers, text_end=numbers
)
options = st.builds(StageOptions, speed=st.floats(0.25, 4), voice=words)
seconds = st.floats(0, 1e9)
told = st.dictionaries(words, st.one_of(st.none(), st.booleans(), numbers, words, st.lists(words)), max_size=5)
requests = st.builds(StageRequest, fence=fences, stage=words, options=options)
outputs = st.builds(StageOutput, fence=fences, stage=words, handle=handles)
ends = st.builds(
    StageFinished,
    fence=fences,
    stage=words,
    reason=words,
    input_tokens=numbers,
    cached_tokens=numbers,
    output_tokens=numbers,
)

TO_PROCESS: list[st.SearchStrategy[wire.ToProcess]] = [
    st.builds(
        wire.Load,
        name=words,
        engines=words,
        connector=words,
        options=told,
        number=numbers,
        arena_bytes=numbers,
        peer=numbers,
        peer_bytes=numbers,
        beat_s=seconds,
    ),
    st.builds(wire.Submit, request=requests),
    st.builds(wire.Update, stage=words, fence=fences, handle=st.none() | handles, final=st.booleans()),
    st.builds(wire.Abort, stage=words, fence=fences),
    st.builds(wire.Retire, fence=fences),
    st.builds(wire.Forget, session_id=words),
    st.builds(wire.AddPeer, number=numbers, arena_bytes=numbers),
    st.builds(wire.DropPeer, number=numbers),
    st.builds(wire.Stop),
]
TO_HOST: list[st.SearchStrategy[wire.ToHost]] = [
    st.builds(wire.Ready, stages=st.lists(words).map(tuple), arena_bytes=numbers),
    st.builds(wire.LoadFailed, reason=words),
    st.builds(wire.Output, output=outputs),
    st.builds(wire.Finished, finished=ends),
    st.builds(wire.Failed, stage=words, fence=fences, reason=words),
    st.builds(wire.Spent, stage=words, session_id=words, seconds=seconds),
    st.builds(wire.Beat, active=st.dictionaries(words, numbers, max_size=5)),
]


def test_no_message_was_left_out() -> None:
    assert len(TO_PROCESS) == len(wire.ToProcess.__args__)
    assert len(TO_HOST) == len(wire.ToHost.__args__)


@given(st.one_of(TO_PROCESS))
def test_what_a_host_says_arrives(message: wire.ToProcess) -> None:
    arrived = wire.decode_for_process(memoryview(wire.encode(message)))
    assert arrived == message
    if isinstance(arrived, wire.Update):
        assert type(arrived.fence) is Fence


@given(st.one_of(TO_HOST))
def test_what_a_process_says_arrives(message: wire.ToHost) -> None:
    assert wire.decode_for_host(wire.encode(message)) == message


@given(st.one_of(*TO_PROCESS, *TO_HOST), st.data())
def test_what_is_damaged_is_refused_or_is_another_message(message: Any, data: st.DataObject) -> None:
    whole = bytearray(wire.encode(message))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    shorter = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for decode in (wire.decode_for_host, wire.decode_for_process):
        for damaged in (bytes(whole), shorter):
            with contextlib.suppress(ControlError):
                decode(damaged)


@given(st.binary(max_size=200))
def test_noise_is_refused_or_is_a_message(noise: bytes) -> None:
    for decode in (wire.decode_for_host, wire.decode_for_process):
        with contextlib.suppress(ControlError):
            assert isinstance(decode(noise), wire.Message)


def test_each_side_understands_only_what_is_meant_for_it() -> None:
    with pytest.raises(ControlError):
        wire.decode_for_host(wire.encode(wire.Stop()))
    with pytest.raises(ControlError):
        wire.decode_for_process(wire.encode(wire.Beat(active={})))


def test_a_message_has_a_bound_on_both_sides() -> None:
    most = wire.Forget(session_id="x" * (wire.MAX_BYTES - 20))
    assert wire.decode_for_process(wire.encode(most)) == most
    with pytest.raises(ControlError, match="65536 are the most"):
        wire.encode(wire.Forget(session_id="x" * wire.MAX_BYTES))
    with pytest.raises(ControlError, match="65536 are the most"):
        wire.decode_for_process(msgspec.msgpack.encode(["forget", "x" * wire.MAX_BYTES]))
    assert len(wire.cut("x" * 9999)) == wire.MAX_REASON
    assert wire.cut("short") == "short"


def test_what_msgpack_cannot_say_is_refused() -> None:
    with pytest.raises(ControlError, match="Beat cannot be said"):
        wire.encode(wire.Beat(active={"x": 2**70}))
