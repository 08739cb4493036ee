"""Tools as session settings, in both protocols: what is taken, shown again, and refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from duplex.connector.payload import Tool
from duplex.errors import ClientError
from duplex.transport.tools import MAX_TOOLS, MAX_TOOLS_BYTES, checked, parameters

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


@dataclass
class Offer:
    name: str | None = "weather"
    description: str | None = "What the weather is like."
    parameters: Any = None


def test_a_tool_is_kept_as_it_was_offered() -> None:
    (tool,) = checked([Offer(parameters=SCHEMA)], param="tools")
    assert (tool.name, tool.description) == ("weather", "What the weather is like.")
    assert parameters(tool) == SCHEMA


def test_without_parameters_there_are_none() -> None:
    (tool,) = checked([Offer(description=None)], param="tools")
    assert tool.description == ""
    assert parameters(tool) == {"type": "object", "properties": {}}


def test_equal_tools_are_equal_whatever_the_order_of_their_fields() -> None:
    backwards = dict(reversed(SCHEMA.items()))
    assert checked([Offer(parameters=SCHEMA)], param="t") == checked([Offer(parameters=backwards)], param="t")


@pytest.mark.parametrize(
    ("offers", "param", "words"),
    [
        ([Offer(name=None)], "tools[0].name", "name"),
        ([Offer(name="with space")], "tools[0].name", "letters"),
        ([Offer(name="x" * 65)], "tools[0].name", "64"),
        ([Offer(), Offer()], "tools[1].name", "'weather'"),
        ([Offer(parameters=[1])], "tools[0].parameters", "object"),
        ([Offer(parameters={"type": "array"})], "tools[0].parameters", "object"),
        ([Offer(parameters={"properties": {"a": 3}})], "tools[0].parameters.properties", "by their names"),
        ([Offer(parameters={"properties": []})], "tools[0].parameters.properties", "by their names"),
        ([Offer(parameters={"required": ["a"]})], "tools[0].parameters.required", "names of properties"),
        ([Offer(parameters={"required": [[]]})], "tools[0].parameters.required", "names of properties"),
        ([Offer(name=f"t{n}") for n in range(MAX_TOOLS + 1)], "tools", str(MAX_TOOLS)),
        ([Offer(description="x" * MAX_TOOLS_BYTES)], "tools", str(MAX_TOOLS_BYTES)),
    ],
)
def test_what_is_no_tool_is_refused(offers: list[Offer], param: str, words: str) -> None:
    with pytest.raises(ClientError) as caught:
        checked(offers, param="tools")
    assert (caught.value.code, caught.value.param) == ("invalid_value", param)
    assert words in caught.value.message


def test_as_much_as_is_allowed_is_taken() -> None:
    offers = [Offer(name=f"t{n}", description="x" * 900) for n in range(MAX_TOOLS)]
    assert len(checked(offers, param="tools")) == MAX_TOOLS
    assert isinstance(checked(offers, param="tools")[0], Tool)
