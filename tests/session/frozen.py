"""What an object graph looks like from inside, comparable by value."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import Enum
from typing import Any

import numpy as np


def frozen(thing: Any) -> Any:
    """Nested tuples with every attribute of every object; equal exactly where nothing has changed."""
    match thing:
        case None | bool() | int() | float() | str() | bytes() | Enum():
            return thing
        case np.ndarray():
            return (thing.shape, thing.tobytes())
        case dict() | OrderedDict():
            return tuple((frozen(key), frozen(value)) for key, value in thing.items())
        case set() | frozenset():
            return tuple(sorted(map(repr, thing)))
        case list() | tuple() | deque():
            return tuple(frozen(value) for value in thing)
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names = slots or list(getattr(thing, "__dict__", ()))
    return (type(thing).__name__, *((name, frozen(getattr(thing, name))) for name in names))
