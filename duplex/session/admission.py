"""Who may have a session: a fixed number of places, each given back exactly once."""

from __future__ import annotations

from duplex.errors import AdmissionRefused, StateError

RETRY_AFTER_S = 10.0
"""What a refused client is told to wait."""


class Admission:
    """Counts the sessions that this server holds.

    Args:
        capacity: most sessions at one time.
    """

    def __init__(self, *, capacity: int) -> None:
        self.capacity = capacity
        self._held: set[str] = set()

    def __len__(self) -> int:
        """Places taken."""
        return len(self._held)

    def refusal(self) -> AdmissionRefused | None:
        """What `admit` would raise now for want of a place; None where there is one."""
        if len(self._held) < self.capacity:
            return None
        message = f"All {self.capacity} sessions of this server are taken; try again in a moment."
        return AdmissionRefused(message, retry_after_s=RETRY_AFTER_S)

    def admit(self, session_id: str) -> None:
        """Take a place. Raises AdmissionRefused where none is free, StateError where the session has one."""
        if session_id in self._held:
            raise StateError(f"session {session_id} has a place already")
        if (refused := self.refusal()) is not None:
            raise refused
        self._held.add(session_id)

    def release(self, session_id: str) -> None:
        """Give the place back. Raises StateError where the session has none."""
        if session_id not in self._held:
            raise StateError(f"session {session_id} has no place to give back")
        self._held.remove(session_id)
