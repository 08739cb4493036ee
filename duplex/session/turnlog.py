"""What happened in the newest turns, for their waterfalls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from duplex.session.fence import Fence

OVER = "done"
"""The last moment of a turn: all of it was heard, or it was cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something happened at `at_s` on the server's clock; `value_ms`: a length of audio that belongs to it."""

    name: str
    at_s: float
    value_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class TurnRecord:
    """One turn: its moments in order, and the requests that served it."""

    response_id: str
    session_id: str
    moments: list[Moment] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)

    @property
    def origin_s(self) -> float | None:
        """Where its time counts from: the end of the user's speech, else the first moment."""
        for moment in self.moments:
            if moment.name == "speech_end":
                return moment.at_s
        return self.moments[0].at_s if self.moments else None


class TurnLog:
    """The newest turns of all sessions; the oldest go first.

    Args:
        capacity: turns kept.

    Attributes:
        on_over: told of each turn once, when nothing more will happen in it.
    """

    def __init__(self, *, capacity: int) -> None:
        self.on_over: Callable[[TurnRecord], None] = lambda turn: None
        self._capacity = capacity
        self._turns: OrderedDict[str, TurnRecord] = OrderedDict()

    def get(self, response_id: str) -> TurnRecord | None:
        return self._turns.get(response_id)

    def add(self, response_id: str, session_id: str, moment: Moment, fence: Fence | None) -> None:
        """Write a moment down."""
        turn = self._turns.get(response_id)
        if turn is None:
            turn = self._turns[response_id] = TurnRecord(response_id=response_id, session_id=session_id)
            while len(self._turns) > self._capacity:
                self._turns.popitem(last=False)
        turn.moments.append(moment)
        if fence is not None and fence not in turn.fences:
            turn.fences.append(fence)
        if moment.name == OVER:
            self.on_over(turn)
