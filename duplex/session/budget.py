"""What a server may spend on its sessions, and whether one more fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duplex.engine.base import Lane
from duplex.errors import StateError
from duplex.session.price import Price, total

_ROUNDING = 1e-9
"""Sums of floats; nobody is turned away for the last bit of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The bounds of everything that a `Price` counts; what is not named has none.

    Bytes are bounds of stone. Compute is an average that bursts: a part of each lane stays free for them, and
    a session that would be alone is never too dear, since a server that admits nobody serves nobody.

    Attributes:
        sessions: most of them at one time, whatever they take.
        nbytes: by device.
        lanes: by name: what engines share the time of.
        headroom: share of each lane that is not given away, in [0, 1).
    """

    sessions: int
    nbytes: Mapping[str, int] = field(default_factory=dict)
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    headroom: float = 0.2

    def __post_init__(self) -> None:
        amounts = (*self.nbytes.values(), *(lane.most for lane in self.lanes.values()))
        if self.sessions < 1 or min(amounts, default=0) < 0 or not 0 <= self.headroom < 1:
            raise StateError("a budget has room for one session at least, and nothing in it is negative")

    def to_give(self, lane: str) -> float:
        """Seconds of work per second that the sessions of a lane may take together."""
        return self.lanes[lane].most * (1 - self.headroom)

    def lacks(self, taken: Price, wanted: Price, *, held: int) -> str | None:
        """What is short for one more session; None where it fits.

        Args:
            taken: by those that are held, together.
            wanted: by one more.
            held: how many there are.
        """
        if held >= self.sessions:
            return "sessions"
        both = total((taken, wanted))
        for device, most in self.nbytes.items():
            if both.nbytes.get(device, 0) > most:
                return f"bytes of {device}"
        for name, lane in self.lanes.items():
            if held and lane.load(both.compute) > self.to_give(name) + _ROUNDING:
                return f"compute of {name}"
        return None
