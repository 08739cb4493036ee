"""Why a client's event cannot be taken, in words that name the field at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import msgspec
from msgspec import inspect

from duplex.errors import ClientError
from duplex.protocol.openai_realtime.client import AnyClientEvent, EventHead

_WHERE = re.compile(r"(?s)^(?P<what>.*?)(?: - at `(?:key` in `)?\$(?P<path>[^`]*)`)?$")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_INDEX = re.compile(r"\[[^]]*]")

_head = msgspec.json.Decoder(EventHead)


def invalid(message: str, *, param: str, code: str = "invalid_value") -> ClientError:
    """A field has a value that it may not have."""
    return ClientError(f"{param}: {message}", code=code, param=param)


def unsupported(message: str, *, param: str) -> ClientError:
    """A field asks for something that OpenAI's API has and this server has not."""
    return ClientError(f"{param}: {message}", code="unsupported", param=param)


def unreadable(data: str, error: Exception) -> ClientError:
    """Why `data` is no client event.

    Args:
        data: the message as it came.
        error: what msgspec raised: DecodeError, ValidationError, or RecursionError for nesting without end.
    """
    if isinstance(error, RecursionError):
        return ClientError("the event is nested too deeply", code="invalid_json")
    event_id, type_ = _read_head(data)
    if not isinstance(error, msgspec.ValidationError):
        return ClientError(f"the event is not JSON: {error}", code="invalid_json", event_id=event_id)
    refused = _explain(str(error), type_)
    refused.event_id = event_id
    return refused


def _read_head(data: str) -> tuple[str | None, object]:
    try:
        head = _head.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None, None
    return (head.event_id[:512] if isinstance(head.event_id, str) else None), head.type


def _explain(text: str, type_: object) -> ClientError:
    match = _WHERE.match(text)
    what, path = (match["what"], (match["path"] or "").lstrip(".")) if match else (text, "")
    if missing := _MISSING.match(what):
        param = f"{path}.{missing['field']}" if path else missing["field"]
        return ClientError(f"{param} is missing", code="missing_required_parameter", param=param)
    if not path:
        return ClientError(f"an event is a JSON object with a type: {what}", code="invalid_type")
    if path == "type":
        known = ", ".join(sorted(_events()))
        return ClientError(
            f"no event has the type {type_!r}; there are: {known}"[:2000], code="unknown_event", param=path
        )
    allowed = ", ".join(_allowed(type_, _INDEX.sub(".[]", path).split(".")))
    remedy = f"; allowed: {allowed}" if allowed else ""
    code = "invalid_type" if ", got `" in what else "invalid_value"
    return ClientError(f"{path}: {what[:1].lower()}{what[1:]}"[:1000] + remedy, code=code, param=path)


@cache
def _events() -> dict[str, inspect.StructType]:
    union = inspect.type_info(AnyClientEvent)
    assert isinstance(union, inspect.UnionType)
    return {str(kind.tag): kind for kind in union.types if isinstance(kind, inspect.StructType)}


def _allowed(type_: object, path: list[str]) -> list[str]:
    """The words that may stand at `path` in an event of this type; empty where it is not words that are wanted."""
    kind = _events().get(type_) if isinstance(type_, str) else None
    kinds: list[inspect.Type] = [kind] if kind is not None else []
    for step in path:
        kinds = [inner for kind in kinds for inner in _inside(kind, step)]
    return [str(value) for kind in kinds if isinstance(kind, inspect.LiteralType) for value in kind.values]


def _inside(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    inner: list[inspect.Type] = []
    if isinstance(kind, inspect.StructType):
        inner = [field.type for field in kind.fields if field.encode_name == step]
    elif isinstance(kind, inspect.ListType) and step == "[]":
        inner = [kind.item_type]
    for found in inner:
        yield from found.types if isinstance(found, inspect.UnionType) else (found,)
