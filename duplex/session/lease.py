"""Who holds a session: one connection, or for a while none, or nobody any more. Pure; secrets are handed in.

Two rules beside the table. Whoever attaches is the owner, and the owner before is none any more: what a former owner
does has no effect. And a token is good until its bearer has shown that it holds the next one: were it spent at once, a
client cut off in the middle of resuming would have lost its session.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum, auto

from duplex.errors import ClientError, StateError


class LeaseState(Enum):
    """Where a session's lease stands."""

    ATTACHED = auto()
    """A connection holds it."""
    DETACHED = auto()
    """The connection was lost; the session waits for another."""
    CLOSED = auto()


class LeaseInput(Enum):
    """What moves the lease."""

    ATTACH = auto()
    DETACH = auto()
    EXPIRE = auto()
    CLOSE = auto()


LEASE_TABLE: dict[tuple[LeaseState, LeaseInput], LeaseState] = {
    (LeaseState.ATTACHED, LeaseInput.ATTACH): LeaseState.ATTACHED,
    (LeaseState.ATTACHED, LeaseInput.DETACH): LeaseState.DETACHED,
    (LeaseState.ATTACHED, LeaseInput.CLOSE): LeaseState.CLOSED,
    (LeaseState.DETACHED, LeaseInput.ATTACH): LeaseState.ATTACHED,
    (LeaseState.DETACHED, LeaseInput.EXPIRE): LeaseState.CLOSED,
    (LeaseState.DETACHED, LeaseInput.CLOSE): LeaseState.CLOSED,
}


class Lease:
    """One session's lease, attached from the start.

    Args:
        token: the secret that the next owner has to show; only its hash is kept.
        grace_s: how long the session waits without an owner; 0 for not at all.

    Attributes:
        state: see `LEASE_TABLE`.
        generation: number of the owner; it grows with each.
    """

    def __init__(self, *, token: str, grace_s: float) -> None:
        self.state = LeaseState.ATTACHED
        self.generation = 0
        self.grace_s = grace_s
        self._next = _hashed(token)
        self._last: bytes | None = None  # good as well, until the owner has shown that it holds the next
        self._until: float | None = None

    def _move(self, what: LeaseInput) -> None:
        try:
            self.state = LEASE_TABLE[self.state, what]
        except KeyError:
            raise StateError(f"a lease in state {self.state.name} cannot take {what.name}") from None

    @property
    def deadline(self) -> float | None:
        """When `wake` should be called; None while there is an owner, or nothing left to own."""
        return self._until if self.state is LeaseState.DETACHED else None

    def owns(self, generation: int) -> bool:
        """Whether the owner of this number is the present one."""
        return self.state is LeaseState.ATTACHED and generation == self.generation

    def check(self, token: str) -> None:
        """Whether `attach` would be allowed; changes nothing.

        Raises:
            ClientError: ``session_closed``, ``not_resumable``, or ``resume_token_invalid`` for a token that was never
                given or has been used. Which of the two is not said.
        """
        if self.state is LeaseState.CLOSED:
            raise ClientError("The session is over; open a new one.", code="session_closed")
        if self.grace_s <= 0:
            raise ClientError("The session was not opened to be resumed; open a new one.", code="not_resumable")
        shown = _hashed(token)
        known = [self._next, *([self._last] if self._last is not None else [])]
        if not any([hmac.compare_digest(shown, one) for one in known]):
            message = (
                "The resume token is not this session's, or has been used; send the newest, or open a new session."
            )
            raise ClientError(message, code="resume_token_invalid", param="token")

    def attach(self, token: str, *, following: str) -> int:
        """A new owner, in place of the one before; returns its number.

        Args:
            token: what it shows.
            following: what the owner after it will have to show.

        Raises:
            ClientError: as `check`; nothing has changed.
        """
        self.check(token)
        self._move(LeaseInput.ATTACH)
        self.generation += 1
        self._last, self._next = _hashed(token), _hashed(following)
        self._until = None
        return self.generation

    def confirm(self, generation: int) -> None:
        """The owner holds the token that it was given: the one that it came with is spent."""
        if self.owns(generation):
            self._last = None

    def detach(self, generation: int, now: float) -> bool:
        """The owner is gone; False where it was none any more, and nothing has changed."""
        if not self.owns(generation):
            return False
        self._move(LeaseInput.DETACH)
        self._until = now + self.grace_s
        return True

    def wake(self, now: float) -> bool:
        """Whether the wait for an owner is over; the lease is closed then."""
        if self.state is not LeaseState.DETACHED or self._until is None or now < self._until:
            return False
        self._move(LeaseInput.EXPIRE)
        return True

    def close(self) -> None:
        """The session is over. May be said again."""
        if self.state is not LeaseState.CLOSED:
            self._move(LeaseInput.CLOSE)


def _hashed(token: str) -> bytes:
    # Tokens are random and long: there is nothing to guess that a slow hash would have to guard.
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
