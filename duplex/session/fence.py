"""The name that every byte carries."""

from __future__ import annotations

from typing import NamedTuple

INPUT = "input"
"""Lane of what the user says: listening and recognition. Interrupting an answer leaves it alone."""

MAIN = "main"
"""Lane of the conversation's own answers."""


class Fence(NamedTuple):
    """Names one turn of one lane of one session; also the identity of that turn's request.

    Attributes:
        session_id: unique in this server.
        generation: grows with each new owner of the session's lease.
        lane: `INPUT`, `MAIN`, or the id of one out-of-band response.
        epoch: number of the turn in its lane; it never goes back.
    """

    session_id: str
    generation: int
    lane: str
    epoch: int

    def next(self) -> Fence:
        """The fence of the following turn in the same lane."""
        return self._replace(epoch=self.epoch + 1)

    def outdates(self, other: Fence) -> bool:
        """Whether `other` belongs to an earlier turn or owner of the same lane of the same session."""
        same_lane = self.session_id == other.session_id and self.lane == other.lane
        return same_lane and (other.generation, other.epoch) < (self.generation, self.epoch)
