"""The face of every connector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from duplex.connector.payload import Kind, Payload
from duplex.session.fence import Fence


class Place(NamedTuple):
    """Where a payload lies that another process may read.

    Attributes:
        owner: number of the process that put it.
        slot: number of its slot in the owner's arena.
        generation: which payload of that slot it is; a later one has another number, so that this place names one
            payload for ever.
        offset, length: its bytes, counted from the first one behind the arena's table of slots.
        header: bytes before its header; what is before are its buffers.
    """

    owner: int
    slot: int
    generation: int
    offset: int
    length: int
    header: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """Names one payload inside one connector; this, not the payload, is what control sees.

    Attributes:
        fence: the turn under which the payload was made; an effect that uses the payload carries it.
        kind: what the payload is.
        key: the payload's number inside its connector.
        nbytes: size of the payload.
        samples, text_end: of `Voiced` audio: its length, and the characters of the answer spoken at its end; else 0.
        place: where other processes find it; None where it does not leave this one.
    """

    fence: Fence
    kind: Kind
    key: int
    nbytes: int
    samples: int = 0
    text_end: int = 0
    place: Place | None = None


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
            PeerGone: it was in a process that has ended.
        """

    def share(self, handle: Handle, readers: int) -> None:
        """Let the payload be taken `readers` times. A payload that is gone already is left so."""

    def retire(self, fence: Fence) -> int:
        """Drop what was put under `fence` or an earlier turn of its lane, and refuse more; returns bytes dropped."""

    def held(self, session_id: str) -> int:
        """Bytes held now for a session, in all its lanes."""

    def forget(self, session_id: str) -> int:
        """Drop all that belongs to a session that is over, and its memory of retired fences; returns bytes dropped."""
