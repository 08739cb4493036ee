"""What one setting is: where its value may come from, what it may be, and the sentence that refuses any other."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from duplex.errors import ConfigError

PREFIX = "DUPLEX_"

T = TypeVar("T")
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path", tuple: "a list"}


def setting(
    default: T,
    text: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    secret: bool = False,
) -> T:
    """A dataclass field with its help text and the values it may have; a secret has no flag and is never shown."""
    rules = {"text": text, "least": least, "most": most, "choices": choices, "secret": secret}
    return field(default=default, metadata=rules, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field of a configuration dataclass.

    Attributes:
        table: the TOML table it stands in, or an empty string for the top of the file.
        name: of the field.
        kind: int, float, bool, str, Path or tuple (of str); whether None is allowed too does not matter to a source.
        default: of the field.
        text: help for a person.
        least, most: bounds of a number, inclusive.
        choices: the words allowed; empty is any.
        secret: whether its value must never be shown.
    """

    table: str
    name: str
    kind: type
    default: object
    text: str
    least: float | None
    most: float | None
    choices: tuple[str, ...]
    secret: bool

    @property
    def dotted(self) -> str:
        """Its name in messages, ``limits.max_sessions``."""
        return f"{self.table}.{self.name}" if self.table else self.name

    @property
    def flag(self) -> str:
        """``--max-sessions``"""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """``DUPLEX_MAX_SESSIONS``"""
        return PREFIX + self.name.upper()

    def convert(self, value: object, source: str) -> object:
        """A source's value as `kind`: flags and variables give text, TOML gives types.

        Raises:
            ConfigError: it cannot be one.
        """
        if type(value) is self.kind:
            return Path(value).expanduser() if isinstance(value, Path) else value
        try:
            if isinstance(value, str):
                return self._from_text(value)
            if self.kind is float and type(value) is int:
                return float(value)
            if self.kind is tuple and isinstance(value, list) and all(isinstance(part, str) for part in value):
                return tuple(value)
        except (ValueError, KeyError):
            pass
        raise self._refusal(value, f" (from {source})")

    def check(self, value: object) -> None:
        """Raises ConfigError where a value of the right type is out of range."""
        if value is None:
            return
        if self.choices and value not in self.choices:
            raise self._refusal(value, "")
        if isinstance(value, int | float):
            # Written so that NaN, which is neither above nor below anything, is refused too.
            low = self.least is None or value >= self.least
            high = self.most is None or value <= self.most
            if not (low and high):
                raise self._refusal(value, "")

    def _from_text(self, text: str) -> object:
        if self.kind is bool:
            return _WORDS[text.strip().lower()]
        if self.kind is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.kind is Path:
            if not text:
                raise ValueError
            return Path(text).expanduser()
        return self.kind(text)

    def _refusal(self, value: object, source: str) -> ConfigError:
        shown = "not what it must be" if self.secret else repr(value)
        ways = f"{self.variable}, or {self.name} in the " + (f"table [{self.table}]" if self.table else "file")
        if not self.secret:
            ways = f"{self.flag}, {ways}"
        return ConfigError(f"{self.dotted} is {shown}{source}: give {self._wanted()} ({ways})")

    def _wanted(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.least is None or self.most is None:
            return _NOUNS[self.kind]
        return f"{_NOUNS[self.kind]} from {self.least:.15g} to {self.most:.15g}"


def settings_of(table: str, owner: type[Any]) -> Iterable[Setting]:
    """The settings among the fields of a dataclass, in order; a field without help text is none."""
    kinds = typing.get_type_hints(owner)
    for spec in fields(owner):
        if "text" in spec.metadata:
            yield Setting(
                table=table, name=spec.name, kind=_kind(kinds[spec.name]), default=spec.default, **spec.metadata
            )


def check(table: str, instance: Any) -> None:
    """Check every setting of a configuration object. Raises ConfigError."""
    for one in settings_of(table, type(instance)):
        one.check(getattr(instance, one.name))


def _kind(annotation: Any) -> type:
    """The plain type behind ``X | None`` or ``tuple[str, ...]``."""
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    kind: type = typing.get_origin(annotation) or annotation
    return kind
