"""Who wants to know what is said in a conversation while it goes on."""

from __future__ import annotations


class Observer:
    """Told of a conversation's words as they come, whichever protocol they came by. This one does not want to know."""

    def heard(self, words: str) -> None:
        """The user's words, once they are recognised."""

    def said(self, response_id: str, words: str) -> None:
        """More words of an answer."""

    def ended(self, status: str, reason: str) -> None:
        """An answer is over."""

    def queued(self, position: int, eta_s: float | None) -> None:
        """All places are taken; position 1 is the next to be let in."""

    def resumed(self) -> None:
        """The connection was lost, and there is another one."""

    def failed(self, message: str) -> None:
        """The server reports an error."""
