"""The face of every connector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duplex.connector.payload import Kind, Payload
from duplex.session.fence import Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """Names one payload inside one connector; this, not the payload, is what control sees.

    Attributes:
        fence: the turn under which the payload was made; an effect that uses the payload carries it.
        kind: what the payload is.
        key: the payload's number inside its connector.
        nbytes: size of the payload.
        samples, text_end: of `Voiced` audio: its length, and the characters of the answer spoken at its end; else 0.
    """

    fence: Fence
    kind: Kind
    key: int
    nbytes: int
    samples: int = 0
    text_end: int = 0


class Connector(Protocol):
    """Carries payloads from one stage to the next. Every method may be called from any thread and does not wait."""

    def put(self, fence: Fence, payload: Payload) -> Handle:
        """Take a payload made under `fence`.

        Raises:
            StaleFence: the fence has been retired; nothing was kept.
            ConnectorFull: the byte budget is spent; nothing was kept.
        """

    def take(self, handle: Handle) -> Payload:
        """Give the payload away: a handle is good for one `take`, or for as many as `share` has said.

        Raises:
            UnknownHandle: already taken, or dropped with its fence.
        """

    def share(self, handle: Handle, readers: int) -> None:
        """Let the payload be taken `readers` times. A payload that is gone already is left so."""

    def retire(self, fence: Fence) -> int:
        """Drop what was put under `fence` or an earlier turn of its lane, and refuse more; returns bytes dropped."""

    def held(self, session_id: str) -> int:
        """Bytes held now for a session, in all its lanes."""

    def forget(self, session_id: str) -> int:
        """Drop all that belongs to a session that is over, and its memory of retired fences; returns bytes dropped."""
