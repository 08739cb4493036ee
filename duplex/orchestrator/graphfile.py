"""A whole graph from one TOML file, checked once.

    name = "voice"

    [devices]                        # bytes that the stages' budgets may take together
    gpu = 16_000_000_000

    [[stage]]                        # one for each stage: the fields of `StageSpec`
    name = "talk"
    lifetime = "turn"
    accepts = ["text"]
    gives = ["spectrum"]
    placement = "process"
    budget_bytes = { gpu = 2_000_000_000 }

    [[edge]]                         # one for each edge: the fields of `Edge`
    source = "talk"
    target = "code2wav"
    kind = "spectrum"

Whatever is wrong is a `GraphError` of one sentence that names the file, the line and the remedy.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from importlib.resources.abc import Traversable
from typing import Any, NoReturn, TypeVar, get_args

import msgspec

from duplex.connector.payload import Kind
from duplex.errors import GraphError
from duplex.orchestrator.graph import Carrier, Edge, Lifetime, Placement, StageGraph, StageSpec
from duplex.orchestrator.toml_lines import Path, line_of, lines_of

T = TypeVar("T")

_TOP = ("name", "devices", "stage", "edge")
_KINDS = tuple(Kind)
_CHOICES: dict[str, tuple[str, ...]] = {
    "lifetime": get_args(Lifetime),
    "placement": get_args(Placement),
    "connector": get_args(Carrier),
    "accepts": _KINDS,
    "gives": _KINDS,
    "kind": _KINDS,
}
_NOUNS = {
    "str": "a text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list in brackets",
    "object": "a table",
}
# What msgspec says of a value of the wrong type, of one that is none of an enum's, and of a field that is not there.
_TYPE = re.compile(r"Expected `([\w | ]+)`, got `(\w+)`")
_ENUM = re.compile(r"Invalid enum value (.+?)(?: - at|$)")
_ABSENT = re.compile(r"Object missing required field `(\w+)`")
_AT = re.compile(r" - at `\$(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_PLACE = re.compile(r"(.*) \(at line (\d+), column \d+\)")


def read(file: Traversable) -> StageGraph:
    """The graph that a file declares; a `pathlib.Path`, or a file in a package (`importlib.resources.files`).

    Raises:
        GraphError: the file cannot be read, is not TOML, or declares what cannot be.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as refusal:
        raise GraphError(f"cannot be read ({refusal.strerror}): check the path", where=str(file)) from refusal
    except UnicodeDecodeError as fault:
        raise GraphError("is not text in UTF-8: save it as such", where=str(file)) from fault
    return parse(text, file=file.name)


def parse(text: str, *, file: str) -> StageGraph:
    """The same from a text; `file` is its name in errors."""
    return _Reader(text, file).graph()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        try:
            self._content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as fault:
            placed = _PLACE.fullmatch(str(fault))
            reason, line = (placed[1], int(placed[2])) if placed else (str(fault), text.count("\n") + 1)
            raise GraphError(f"this is not TOML: {reason}", where=f"{file}, line {line}") from fault
        self._lines = lines_of(text)

    def graph(self) -> StageGraph:
        self._known((), self._content, _TOP, "a graph")
        if "name" not in self._content:
            self._refuse("the graph has no `name`: give it one at the top of the file", ())
        name = self._converted(self._content["name"], str, ("name",))
        devices = self._converted(self._content.get("devices", {}), dict[str, int], ("devices",))
        stages, edges = self._all("stage", StageSpec), self._all("edge", Edge)
        try:
            return StageGraph(name=name, stages=stages, edges=edges, devices=devices)
        except GraphError as error:
            raise self._error(error.message, error.path) from error

    def _all(self, what: str, kind: type[T]) -> list[T]:
        tables = self._content.get(what, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._refuse(f"`{what}` is no list of tables: head each with [[{what}]]", (what,))
        fields = tuple(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
        for index, table in enumerate(tables):
            self._known((what, index), table, fields, f"a{'n' * (what == 'edge')} {what}")
        return [self._converted(table, kind, (what, index)) for index, table in enumerate(tables)]

    def _known(self, path: Path, table: dict[str, Any], fields: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in fields:
                near = difflib.get_close_matches(key, fields, n=1)
                remedy = f"did you mean `{near[0]}`?" if near else f"drop it, or use one of {', '.join(fields)}"
                self._refuse(f"there is no `{key}` in {where}: {remedy}", (*path, key))

    def _converted(self, value: Any, kind: type[T], path: Path) -> T:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as fault:
            self._invalid(str(fault), value, path, fault)

    def _invalid(self, said: str, value: Any, path: Path, fault: Exception) -> NoReturn:
        """Turn what msgspec says into a sentence of ours."""
        if absent := _ABSENT.match(said):
            raise self._error(f"this {path[0]} has no `{absent[1]}`: add it", path) from fault
        at = _AT.search(said)
        for key, index in _STEP.findall(at[1] if at is not None else ""):
            if index == "...":  # a value of a table whose keys are free, all of them whole numbers
                step: str | int = next(key for key, number in value.items() if type(number) is not int)
            else:
                step = key or int(index)
            path, value = (*path, step), value[step]
        key = next((part for part in reversed(path) if isinstance(part, str)), "")
        if _ENUM.match(said) and key in _CHOICES:
            raise self._error(f"`{key}` cannot be {value!r}: use one of {', '.join(_CHOICES[key])}", path) from fault
        if wrong := _TYPE.match(said):
            wanted = " or ".join(_NOUNS.get(noun, noun) for noun in wrong[1].split(" | ") if noun != "null")
            got = _NOUNS.get(wrong[2], f"a {wrong[2]}")
            raise self._error(f"`{key}` is {got}: make it {wanted}", path) from fault
        raise self._error(f"`{key}` cannot be {value!r}: {said}", path) from fault

    def _refuse(self, message: str, path: Path) -> NoReturn:
        raise self._error(message, path)

    def _error(self, message: str, path: Path) -> GraphError:
        return GraphError(message, where=f"{self._file}, line {line_of(self._lines, path)}", path=path)
