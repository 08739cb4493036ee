"""The model families that are installed: any package may bring one, without a line of this one being touched.

    [project.entry-points."duplex.models"]
    three-stages = "three_stages:FAMILY"

The built-in one comes through the same door.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points

from duplex.errors import FamilyError
from duplex.models.family import Family

GROUP = "duplex.models"

BUILT_IN = EntryPoint(name="voice", value="duplex.models.voice.family:FAMILY", group=GROUP)
"""As in pyproject.toml; here as well for a checkout whose installation is older, or that is not installed at all."""


def found() -> dict[str, EntryPoint]:
    """What there is, by name; nothing of it is imported.

    Raises:
        FamilyError: two packages bring one name.
    """
    entries = {BUILT_IN.name: BUILT_IN}
    for entry in entry_points(group=GROUP):
        other = entries.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise FamilyError(
                f"the model family `{entry.name}` is in {_package(other)} and in {_package(entry)}: uninstall one"
            )
    return entries


def family(name: str) -> Family:
    """The family of that name, imported.

    Raises:
        FamilyError: there is none, it cannot be imported, or it is not what a family must be.
    """
    entries = found()
    if (entry := entries.get(name)) is None:
        near = difflib.get_close_matches(name, entries, n=1)
        known = ", ".join(f"{one} ({_package(entries[one])})" for one in sorted(entries))
        remedy = f"did you mean {near[0]}? There are" if near else "install its package, or choose one of"
        raise FamilyError(f"there is no model family `{name}`: {remedy} {known}")
    what = f"the model family `{name}` of {_package(entry)}"
    remedy = f"repair or reinstall {_package(entry)}, or choose another with --model"
    try:
        loaded = entry.load()
    except Exception as error:  # the boundary of a package that is not ours: its import may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FamilyError(f"{what} cannot be imported ({reason}): {remedy}") from error
    if not isinstance(loaded, Family):
        raise FamilyError(f"{what} is no family, {entry.value} being {type(loaded).__name__}: {remedy}")
    if loaded.name != name:
        raise FamilyError(f"{what} calls itself `{loaded.name}`: {remedy}")
    return loaded


def _package(entry: EntryPoint) -> str:
    return "duplex" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
