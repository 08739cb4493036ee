"""The native protocol as it travels: golden vectors, schemas without drift, frames that are refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.client.inbox import decode
from duplex.protocol.native import schema
from duplex.protocol.native.client import AnyClientMessage
from duplex.protocol.native.media import HEADER_BYTES, Frame, FrameError, pack, unpack
from duplex.protocol.native.server import AnyServerMessage
from duplex.transport.native import refusal

PROTOCOL = Path(__file__).parents[2] / "protocol"


def vectors(name: str) -> list[Any]:
    loaded: list[Any] = json.loads((PROTOCOL / "vectors" / f"{name}.json").read_text())
    return loaded


@pytest.mark.parametrize("side", schema.SIDES)
def test_schemas_have_not_drifted(side: str) -> None:
    """After a wanted change: ``python -m duplex.protocol.native.schema protocol``."""
    assert (PROTOCOL / f"{side}.schema.json").read_text() == schema.schema(side)


@pytest.mark.parametrize("vector", vectors("frames"), ids=lambda vector: vector["name"])
def test_frames_are_golden(vector: dict[str, Any]) -> None:
    fields = {name: vector[name] for name in ("kind", "flags", "epoch", "sequence", "timestamp")}
    payload = struct.pack(f"<{len(vector['samples'])}h", *vector["samples"])
    assert pack(Frame(**fields, payload=payload)).hex() == vector["hex"]
    frame = unpack(bytes.fromhex(vector["hex"]))
    assert {name: getattr(frame, name) for name in fields} == fields
    assert bytes(frame.payload) == payload


def covers(whole: Any, part: Any) -> bool:
    """Whether `part` is in `whole`, which may have more fields: those that were left out, at their defaults."""
    if isinstance(part, dict):
        return all(name in whole and covers(whole[name], value) for name, value in part.items())
    return bool(whole == part)


@pytest.mark.parametrize("vector", vectors("client"), ids=lambda vector: str(vector["type"]))
def test_the_server_reads_what_clients_say(vector: dict[str, Any]) -> None:
    message = refusal.decode(json.dumps(vector))
    assert covers(msgspec.to_builtins(message), vector)
    assert refusal.decode(json.dumps({**vector, "of_a_newer_client": 1})) == message


@pytest.mark.parametrize("vector", vectors("server"), ids=lambda vector: str(vector["type"]))
def test_the_client_reads_what_the_server_says(vector: dict[str, Any]) -> None:
    message = decode(json.dumps(vector))
    assert msgspec.to_builtins(message) == vector
    assert decode(json.dumps({**vector, "of_a_newer_server": 1})) == message


@pytest.mark.parametrize(("side", "union"), [("client", AnyClientMessage), ("server", AnyServerMessage)])
def test_there_is_a_vector_of_every_message(side: str, union: Any) -> None:
    tags = {kind.__struct_config__.tag for kind in get_args(union)}
    assert {vector["type"] for vector in vectors(side)} == tags


def test_a_client_passes_over_what_it_does_not_know() -> None:
    assert getattr(decode('{"type":"news"}'), "code", "") == "unknown_message"


@given(st.binary(max_size=64))
def test_any_bytes_are_a_frame_or_an_error(message: bytes) -> None:
    try:
        frame = unpack(message)
    except FrameError:
        assert len(message) < HEADER_BYTES or message[0] not in (1, 2) or len(message) % 2
        return
    assert pack(frame)[4:] == message[4:]


@given(st.integers(1, 2), st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.binary())
def test_frames_come_back(kind: int, flags: int, epoch: int, number: int, payload: bytes) -> None:
    payload = payload[: len(payload) // 2 * 2]
    frame = Frame(kind=kind, flags=flags, epoch=epoch, sequence=number, timestamp=number, payload=payload)
    back = unpack(pack(frame))
    assert (back.kind, back.flags, back.epoch, back.sequence, back.timestamp) == (kind, flags, epoch, number, number)
    assert bytes(back.payload) == payload
