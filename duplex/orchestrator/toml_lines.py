"""On which line of a TOML document each of its values stands; `tomllib` itself does not say."""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Leads to a value through tables and arrays, as in ``("stage", 2, "accepts", 0)``."""

_SPACE = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:\s|#[^\n]*)*")
_REST = re.compile(r"[^\n]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?""""{0,2}' + r"|'''.*?''''{0,2}" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'", re.DOTALL
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE = re.compile(r"[^,\]}#\n]+")


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of `path`, or of the nearest thing around it that has one; 1 where nothing has."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 1


def lines_of(text: str) -> dict[Path, int]:
    """The first line, counted from 1, of every key, table and array element. `text` must be TOML that tomllib reads."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    """Walks through a document that is known to be right, so that nothing needs to be checked."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[Path, int] = {}  # how many each array of tables has so far

    def document(self) -> None:
        table: Path = ()
        while char := self._next():
            if char == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_REST)

    def _header(self) -> Path:
        line = self._line()
        array = self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        *above, last = self._key()
        path: Path = ()
        for part in above:
            path = self._within((*path, part))
        path = (*path, last)
        self.lines.setdefault(path, line)
        if array:
            self._tables[path] = self._tables.get(path, 0) + 1
        path = self._within(path)
        self.lines.setdefault(path, line)
        return path

    def _within(self, path: Path) -> Path:
        """The newest table of an array of tables, or the table itself."""
        return (*path, self._tables[path] - 1) if path in self._tables else path

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        for part in self._key():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_SPACE)
            if quoted := _STRING.match(self._text, self._at):
                parts.append(str(tomllib.loads(f"key = {quoted[0]}")["key"]))
                self._at = quoted.end()
            else:
                parts.append(self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: Path) -> None:
        opening = self._text[self._at]
        if opening == "[":
            self._elements(path)
        elif opening == "{":
            self._inline(path)
        else:
            self._skip(_STRING) or self._skip(_BARE)

    def _elements(self, path: Path) -> None:
        index = 0
        self._at += 1
        while (char := self._next()) != "]":
            if char == ",":
                self._at += 1
            else:
                self.lines[(*path, index)] = self._line()
                self._value((*path, index))
                index += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while (char := self._next()) != "}":
            if char == ",":
                self._at += 1
            else:
                self._pair(path)
        self._at += 1

    def _next(self) -> str:
        """The next character that is neither space nor comment; empty at the end."""
        self._skip(_BETWEEN)
        return self._text[self._at : self._at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at
        return match[0] if match is not None else ""

    def _line(self) -> int:
        return bisect.bisect_left(self._ends, self._at) + 1
