"""What a session wants done. Effects are performed in order, by the runner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duplex.connector.base import Handle
from duplex.connector.payload import Mark, Prompt
from duplex.engine.base import StageOptions
from duplex.session.fence import Fence
from duplex.session.notices import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Retain:
    """Keep input audio, so that later effects can name it by position. `start`: position of its first sample."""

    start: int
    pcm: NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Open a request with these stages; its input follows."""

    fence: Fence
    stages: tuple[str, ...]
    options: StageOptions = StageOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Give a stage the retained audio from `start` to `end` (samples)."""

    fence: Fence
    stage: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Give a stage something small; `final`: nothing follows."""

    fence: Fence
    stage: str
    payload: Mark | Prompt | None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The turn is over before its time: drop all that was made under its fence, everywhere, then stop its stages."""

    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Send this audio now.

    Attributes:
        fence: the audio's own (not the session's present one).
        handle: names the bytes.
        start: position of its first sample in the audio of its answer.
    """

    fence: Fence
    response_id: str
    item_id: str
    handle: Handle
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Tell the client."""

    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A moment of a turn, for its waterfall.

    Attributes:
        name: of the moment.
        ago_s: how long before now it was.
        value_ms: a length of audio that belongs to the moment, or None.
        fence: a request that belongs to the turn from here on, or None.
    """

    response_id: str
    name: str
    ago_s: float = 0.0
    value_ms: int | None = None
    fence: Fence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Something has happened that is worth counting."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The session is closed: give everything back. Comes once, last."""

    session_id: str
    reason: str


Effect = Retain | Submit | Feed | Update | Abort | Play | Tell | Note | Count | Release
