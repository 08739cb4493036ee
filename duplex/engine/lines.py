"""What a process prints, as lines that can be logged: no longer and no more of them than is good. Pure."""

from __future__ import annotations

WINDOW_S = 1.0


class Lines:
    """Cuts a stream of bytes into lines.

    A line that is too long is cut. In each second only so many lines are given; the others are counted, and the count
    is given with the first line afterwards, or at the end.

    Args:
        longest: bytes of one line.
        most: lines in a second.
    """

    def __init__(self, *, longest: int = 2000, most: int = 100) -> None:
        self._longest = longest
        self._most = self._left = most
        self._window_end = float("-inf")
        self._partial = bytearray()
        self._is_cut = False
        self._omitted = 0

    def feed(self, data: bytes, now: float) -> list[str]:
        """Lines that end in `data`. `now`: seconds, monotonic."""
        told: list[str] = []
        if now >= self._window_end:
            told += self._summary()
            self._window_end, self._left = now + WINDOW_S, self._most
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if not self._left:
                # A process that floods costs a count of bytes here, and no object a line.
                end = data.rfind(b"\n")
                self._omitted += data.count(b"\n", start, end + 1)
                self._partial.clear()
                self._is_cut = False
            else:
                self._keep(data[start:end])
                told += self._take()
            start = end + 1
        self._keep(data[start:])
        return told

    def flush(self) -> list[str]:
        """The stream is at its end: what has no line end yet, and what was left out."""
        return [*self._take(), *self._summary()]

    def _keep(self, piece: bytes) -> None:
        room = self._longest - len(self._partial)
        self._partial += piece[:room]
        self._is_cut |= len(piece) > room

    def _take(self) -> list[str]:
        text = self._partial.decode("utf-8", "replace").rstrip()
        text = "".join(letter if letter.isprintable() else " " for letter in text)
        if self._is_cut:
            text += "…"
        self._partial.clear()
        self._is_cut = False
        if not text.strip():
            return []
        self._left -= 1
        return [text]

    def _summary(self) -> list[str]:
        omitted, self._omitted = self._omitted, 0
        return [f"({omitted} more lines)"] if omitted else []
