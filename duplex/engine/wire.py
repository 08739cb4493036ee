"""What a host and its engine process say to each other: one message is one datagram of a SOCK_SEQPACKET pair.

Payloads never come this way, only their handles. A file descriptor that belongs to a message travels beside it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from duplex.connector.base import Handle
from duplex.engine.base import StageFinished, StageOutput, StageRequest
from duplex.errors import ControlError
from duplex.session.fence import Fence

MAX_BYTES = 64 << 10
"""Of one message; well below what the kernel lets wait for a reader."""

MAX_REASON = 2000
"""Characters of an error's text; what is longer is cut."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Base of all messages."""


# From the host to its process.


class Load(Message, frozen=True, kw_only=True, tag="load"):
    """The first message; the descriptor of the host's own arena is beside it.

    Attributes:
        name: of the host, for people.
        engines: ``module:function``; called with a connector and the options, returns engines by stage.
        connector: ``module:function``; called with the number and the bytes of the process's arena.
        options: what the family wants its engines to know.
        number, arena_bytes: of the process's own arena.
        peer, peer_bytes: number and bytes of the host's arena.
        beat_s: seconds between two beats.
    """

    name: str
    engines: str
    connector: str
    options: dict[str, Any]
    number: int
    arena_bytes: int
    peer: int
    peer_bytes: int
    beat_s: float


class Submit(Message, frozen=True, kw_only=True, tag="submit"):
    """`Engine.submit`."""

    request: StageRequest


class Update(Message, frozen=True, kw_only=True, tag="update"):
    """`Engine.update`."""

    stage: str
    fence: Fence
    handle: Handle | None
    final: bool


class Abort(Message, frozen=True, kw_only=True, tag="abort"):
    """`Engine.abort`."""

    stage: str
    fence: Fence


class Retire(Message, frozen=True, kw_only=True, tag="retire"):
    """`Connector.retire`."""

    fence: Fence


class Forget(Message, frozen=True, kw_only=True, tag="forget"):
    """A session is over: `Connector.forget`, and what engines have counted for it."""

    session_id: str


class AddPeer(Message, frozen=True, kw_only=True, tag="add_peer"):
    """There is one more arena; its descriptor is beside this."""

    number: int
    arena_bytes: int


class DropPeer(Message, frozen=True, kw_only=True, tag="drop_peer"):
    """An arena's owner is gone."""

    number: int


class Stop(Message, frozen=True, kw_only=True, tag="stop"):
    """Stop the engines and exit."""


# From the process to its host.


class Ready(Message, frozen=True, kw_only=True, tag="ready"):
    """The engines of these stages run; the descriptor of the process's arena is beside this."""

    stages: tuple[str, ...]
    arena_bytes: int


class LoadFailed(Message, frozen=True, kw_only=True, tag="load_failed"):
    """The engines cannot run; the process ends."""

    reason: str


class Output(Message, frozen=True, kw_only=True, tag="output"):
    """An engine has made a chunk."""

    output: StageOutput


class Finished(Message, frozen=True, kw_only=True, tag="finished"):
    """An engine has ended a request."""

    finished: StageFinished


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """An engine cannot finish a request."""

    stage: str
    fence: Fence
    reason: str


class Spent(Message, frozen=True, kw_only=True, tag="spent"):
    """CPU seconds that an engine has worked for a session so far."""

    stage: str
    session_id: str
    seconds: float


class Beat(Message, frozen=True, kw_only=True, tag="beat"):
    """The process's loop runs. `active`: by stage, requests whose worker is not closed."""

    active: dict[str, int]


ToProcess = Load | Submit | Update | Abort | Retire | Forget | AddPeer | DropPeer | Stop
ToHost = Ready | LoadFailed | Output | Finished | Failed | Spent | Beat

_M = TypeVar("_M")
_encoder = msgspec.msgpack.Encoder()
_to_process: msgspec.msgpack.Decoder[ToProcess] = msgspec.msgpack.Decoder(ToProcess)
_to_host: msgspec.msgpack.Decoder[ToHost] = msgspec.msgpack.Decoder(ToHost)


def encode(message: ToProcess | ToHost) -> bytes:
    """One message as msgpack. Raises ControlError where it is too long, or holds what msgpack cannot say."""
    try:
        data = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise ControlError(f"{type(message).__name__} cannot be said: {error}") from error
    if len(data) > MAX_BYTES:
        raise ControlError(f"{type(message).__name__} has {len(data)} bytes; {MAX_BYTES} are the most")
    return data


def decode_for_process(data: bytes | memoryview) -> ToProcess:
    """What a host has said. Raises ControlError where it is malformed."""
    return _decode(_to_process, data)


def decode_for_host(data: bytes | memoryview) -> ToHost:
    """What an engine process has said. Raises ControlError where it is malformed."""
    return _decode(_to_host, data)


def _decode(decoder: msgspec.msgpack.Decoder[_M], data: bytes | memoryview) -> _M:
    if len(data) > MAX_BYTES:
        raise ControlError(f"a message has {len(data)} bytes; {MAX_BYTES} are the most")
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        # Not the message itself: it may be what somebody said.
        raise ControlError(f"a message of {len(data)} bytes cannot be read: {error}") from error


def cut(reason: str) -> str:
    """An error's text, short enough to be sent."""
    return reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 1] + "…"
