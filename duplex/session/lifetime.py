"""How long a session lives: its longest life, and how long nothing may happen in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EndReason = Literal["idle", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """The session will end in `in_s` seconds, unless something happens where it is idle."""

    reason: EndReason
    in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The time is over."""

    reason: EndReason


class Lifetime:
    """Two limits, each announced before it bites: once for a life, once for each time that nothing happens.

    Args:
        idle_s, lifetime_s: the limits.
        notice_s: how long before; a limit that is not twice as long is announced at its half.
        now: when the session began.
    """

    def __init__(self, *, idle_s: float, lifetime_s: float, notice_s: float, now: float) -> None:
        self._idle_s = idle_s
        self._notice_s: dict[EndReason, float] = {
            "idle": min(notice_s, idle_s / 2),
            "expired": min(notice_s, lifetime_s / 2),
        }
        self._ends: dict[EndReason, float] = {"expired": now + lifetime_s, "idle": now + idle_s}
        self._warned: set[EndReason] = set()

    def touch(self, now: float) -> None:
        """Something has happened."""
        self._ends["idle"] = now + self._idle_s
        self._warned.discard("idle")

    @property
    def deadline(self) -> float:
        """When `wake` should be called next."""
        return min(end if reason in self._warned else self._warns_at(reason) for reason, end in self._ends.items())

    def _warns_at(self, reason: EndReason) -> float:
        return self._ends[reason] - self._notice_s[reason]

    def wake(self, now: float) -> list[Warned | Ended]:
        """What is due; nothing follows an `Ended`."""
        for reason, end in self._ends.items():
            if now >= end:
                return [Ended(reason=reason)]
        due: list[Warned | Ended] = []
        for reason, end in self._ends.items():
            if reason not in self._warned and now >= self._warns_at(reason):
                self._warned.add(reason)
                due.append(Warned(reason=reason, in_s=end - now))
        return due
