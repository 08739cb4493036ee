"""How a connection ends: the WebSocket's close code and reason."""

from __future__ import annotations

from typing import NamedTuple

from duplex.session.notices import Closed

NORMAL, GOING_AWAY, POLICY, INTERNAL, TRY_AGAIN_LATER = 1000, 1001, 1008, 1011, 1013
"""Close codes, RFC 6455, section 7.4.1; 1013 from the IANA registry that it founded."""

MAX_REASON_BYTES = 123
"""A control frame holds 125 bytes, two of which are the code (RFC 6455, section 5.5)."""


class Farewell(NamedTuple):
    """The close frame: `reason` is at most `MAX_REASON_BYTES` long in UTF-8."""

    code: int
    reason: str


_CODES = {
    "client": NORMAL,
    "idle": NORMAL,
    "expired": NORMAL,
    "shutdown": GOING_AWAY,
    "queue_timeout": TRY_AGAIN_LATER,
    "replaced": POLICY,
    "slow_reader": POLICY,
    "overloaded": POLICY,
}
"""Close codes by `Closed.reason`; every other reason is the server's own fault."""


def code_of(closed: Closed) -> int:
    """The close code of a session's end."""
    return _CODES.get(closed.reason, INTERNAL)


def farewell(code: int, reason: str) -> Farewell:
    """A close frame, its reason cut to what fits, between characters."""
    return Farewell(code, reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))
