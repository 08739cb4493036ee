"""Tools that a client offers to the language model, checked whichever protocol they come by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from duplex.connector.payload import Tool
from duplex.errors import ClientError

MAX_TOOLS = 64
MAX_TOOLS_BYTES = 65_536
"""Of all descriptions and parameters together, in UTF-8: they stand in every prompt."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOTHING = {"type": "object", "properties": {}}
_encoder = msgspec.json.Encoder(order="deterministic")


class Offered(Protocol):
    """A function tool as either wire has it; `parameters` is a JSON Schema of an object, or None for no parameters."""

    @property
    def name(self) -> str | None: ...
    @property
    def description(self) -> str | None: ...
    @property
    def parameters(self) -> Any: ...


def checked(offered: Sequence[Offered], *, param: str) -> tuple[Tool, ...]:
    """The tools, in their order.

    Raises:
        ClientError: too many, too large, two of one name, or one that is no function; nothing has changed.
    """
    if len(offered) > MAX_TOOLS:
        raise _invalid(f"there may be {MAX_TOOLS} tools, and these are {len(offered)}", param)
    tools = tuple(_tool(one, f"{param}[{number}]") for number, one in enumerate(offered))
    for number, tool in enumerate(tools):
        if any(tool.name == other.name for other in tools[:number]):
            raise _invalid(f"two tools have the name {tool.name!r}", f"{param}[{number}].name")
    nbytes = sum(len(tool.description.encode()) + len(tool.parameters.encode()) for tool in tools)
    if nbytes > MAX_TOOLS_BYTES:
        raise _invalid(f"all tools together may have {MAX_TOOLS_BYTES} bytes, and these have {nbytes}", param)
    return tools


def parameters(tool: Tool) -> dict[str, Any]:
    """Its JSON Schema, for the wire."""
    schema: dict[str, Any] = msgspec.json.decode(tool.parameters)
    return schema


def _tool(offered: Offered, param: str) -> Tool:
    if offered.name is None or not _NAME.fullmatch(offered.name):
        raise _invalid("a tool's name has 1 to 64 letters, digits, _ or -", f"{param}.name")
    schema = _NOTHING if offered.parameters is None else offered.parameters
    _check_schema(schema, f"{param}.parameters")
    return Tool(name=offered.name, description=offered.description or "", parameters=_encoder.encode(schema).decode())


def _check_schema(schema: Any, param: str) -> None:
    """As much of it as a model is shown: what the arguments are called, and which have to be there."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise _invalid('parameters are a JSON Schema of the type "object"', param)
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(one, dict | bool) for one in properties.values()):
        raise _invalid("properties are JSON Schemas by their names", f"{param}.properties")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        raise _invalid("required is a list of names of properties", f"{param}.required")


def _invalid(message: str, param: str) -> ClientError:
    return ClientError(f"{param}: {message}.", code="invalid_value", param=param)
