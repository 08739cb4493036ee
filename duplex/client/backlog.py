"""What a client has sent and the server may not have taken: sent again after a resume. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message as it travelled; `audio`: whether it may be lost rather than held for ever."""

    sequence: int
    message: str | bytes
    audio: bool


class Backlog:
    """Numbers what is sent from 1, and keeps it until it is confirmed.

    Policy: past `max_bytes` the oldest audio goes; what the client commands is never dropped.

    Args:
        max_bytes: of the messages kept.

    Attributes:
        lost: messages that went for want of room.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.lost = 0
        self._max_bytes = max_bytes
        self._sequence = 0
        self._sent: deque[Sent] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sent)

    def number(self) -> int:
        """The number of the next message, which is to be kept with `keep`."""
        self._sequence += 1
        return self._sequence

    def keep(self, sent: Sent) -> None:
        """Keep it until `confirm`."""
        self._sent.append(sent)
        self._bytes += len(sent.message)
        while self._bytes > self._max_bytes:
            oldest = next((one for one in self._sent if one.audio), None)
            if oldest is None:
                return
            self._sent.remove(oldest)
            self._bytes -= len(oldest.message)
            self.lost += 1

    def confirm(self, taken: int) -> None:
        """The server has taken everything up to this number."""
        while self._sent and self._sent[0].sequence <= taken:
            self._bytes -= len(self._sent.popleft().message)

    def unconfirmed(self) -> tuple[Sent, ...]:
        """What is to be sent again, in order."""
        return tuple(self._sent)
