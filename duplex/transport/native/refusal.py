"""Why a client's message cannot be taken, in words that name what is at fault."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
from msgspec import Struct

from duplex.errors import ClientError
from duplex.protocol.native import VERSION
from duplex.protocol.native.client import AnyClientMessage

MAX_TEXT_BYTES = 1 << 20
"""Longest text message: reading it keeps every other session waiting."""

_WHERE = re.compile(r"(?s)^(?P<what>.*?)(?: - at `(?:key` in `)?\$\.?(?P<path>[^`]*)`)?$")

_TYPES = tuple(str(kind.__struct_config__.tag) for kind in get_args(AnyClientMessage))


class _Head(Struct):
    type: Any = None
    id: Any = None


_head = msgspec.json.Decoder(_Head)
_messages = msgspec.json.Decoder(AnyClientMessage)


def decode(text: str) -> AnyClientMessage:
    """A client's message.

    Raises:
        ClientError: ``message_too_long``, ``invalid_json``, ``unknown_message``, or ``invalid_message`` with the field
            at fault.
    """
    if len(text) > MAX_TEXT_BYTES:
        message = f"A text message has {MAX_TEXT_BYTES} bytes at most, and this one {len(text)}; audio goes in frames."
        raise ClientError(message, code="message_too_long")
    try:
        return _messages.decode(text)
    except RecursionError:
        raise ClientError("The message is nested too deeply.", code="invalid_json") from None
    except msgspec.ValidationError as error:
        raise _explained(text, str(error)) from None
    except msgspec.DecodeError as error:
        raise ClientError(f"The message is not JSON: {error}.", code="invalid_json") from None


def _explained(text: str, error: str) -> ClientError:
    try:
        head = _head.decode(text)
    except msgspec.DecodeError:
        return ClientError("A message is a JSON object with a type.", code="invalid_message")
    id_ = head.id[:128] if isinstance(head.id, str) else None
    if head.type not in _TYPES:
        message = f"There is no message of the type {str(head.type)[:60]!r}; there are: {', '.join(_TYPES)}."
        return ClientError(message, code="unknown_message", param="type", event_id=id_)
    match = _WHERE.match(error)
    what, path = (match["what"], match["path"] or None) if match else (error, None)
    message = f"{head.type}: {what[:1].lower()}{what[1:]}"[:500] + (f" ({path})." if path else ".")
    return ClientError(message, code="invalid_message", param=path, event_id=id_)


def check_version(version: int) -> None:
    """Raises ClientError for another version of the protocol than this server's."""
    if version != VERSION:
        message = f"This server speaks version {VERSION} of the protocol, not {version}; use a client of that version."
        raise ClientError(message, code="version_unsupported", param="version")
