"""What a session tells, in order, until it has arrived: what waits to be sent, and what was sent and may be lost. Pure.

Things are numbered from 1 when they are sent first, so a connection sees no hole; sent again they keep their numbers,
and what is left out then was audio of an interrupted turn, which nobody wants to hear.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from duplex.errors import ClientError
from duplex.session.fence import Fence
from duplex.session.notices import Closed, Notice, Snapshot
from duplex.session.port import Audio, Entry


class Journal:
    """The output of one session.

    Policies: nothing that waits is dropped for want of room, `put` says that there is none; of what was sent the oldest
    is forgotten first. Audio whose fence is retired is taken out of both.

    Args:
        waiting: most entries that wait to be sent.
        kept: most entries that were sent and are kept; 0 for a session that cannot be resumed.
        kept_bytes: most bytes of these.

    Attributes:
        sequence: number of the last entry that was sent.
    """

    def __init__(self, *, waiting: int, kept: int, kept_bytes: int) -> None:
        self.sequence = 0
        self._most_waiting = waiting
        self._most_kept = kept
        self._most_bytes = kept_bytes
        self._waiting: deque[Entry] = deque()
        self._sent: deque[Entry] = deque()
        self._bytes = 0
        self._whole = True  # nothing that was put in was dropped
        self._lost = 0  # nothing up to this number can be sent again

    def __len__(self) -> int:
        """Entries that wait to be sent."""
        return len(self._waiting)

    @property
    def kept(self) -> int:
        """Entries that were sent and could be sent again."""
        return len(self._sent)

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def put(self, told: Notice | Audio) -> bool:
        """One more thing to tell; False where there is no room. `Closed` always finds room."""
        if len(self._waiting) >= self._most_waiting and not isinstance(told, Closed):
            return False
        self._waiting.append(Entry(told=told))
        return True

    def take(self) -> Entry | None:
        """The next to be sent, with its number; None where nothing waits."""
        if not self._waiting:
            return None
        entry = self._waiting.popleft()
        if not entry.sequence:
            self.sequence += 1
            entry = Entry(told=entry.told, sequence=self.sequence)
        self._sent.append(entry)
        self._bytes += entry.nbytes
        while len(self._sent) > self._most_kept or self._bytes > self._most_bytes:
            self._forget()
        return entry

    def _forget(self) -> None:
        oldest = self._sent.popleft()
        self._bytes -= oldest.nbytes
        self._lost = max(self._lost, oldest.sequence)

    def acknowledge(self, sequence: int) -> None:
        """Everything up to this number has arrived, and need not be kept.

        Raises:
            ClientError: so much was never sent; nothing has changed.
        """
        self.check(sequence)
        while self._sent and self._sent[0].sequence <= sequence:
            self._forget()
        while self._waiting and 0 < self._waiting[0].sequence <= sequence:
            self._waiting.popleft()
        self._lost = max(self._lost, sequence)

    def check(self, sequence: int) -> None:
        """Raises ClientError for a number from the future."""
        if sequence > self.sequence:
            message = f"Nothing was sent under the number {sequence}; the last was {self.sequence}."
            raise ClientError(message, code="sequence_unknown", param="sequence")

    def rewind(self, seen: int) -> bool:
        """Let what was sent after `seen` be sent again.

        False where some of it is forgotten, or where with all that waits it fills more than half of the room: whoever
        comes back has not read yet, and must not be found too slow. Then nothing has changed.

        Raises:
            ClientError: so much was never sent; nothing has changed.
        """
        self.check(seen)
        # What was sent and is sent again counts from the front of what waits, wherever the last sending broke off.
        again = [entry for entry in self._waiting if entry.sequence]
        if seen < self._lost or not self._whole:
            return False
        fresh = [entry for entry in self._waiting if not entry.sequence]
        wanted = [entry for entry in (*self._sent, *again) if entry.sequence > seen]
        if 2 * (len(wanted) + len(fresh)) > self._most_waiting:
            return False
        self._sent.clear()
        self._bytes = 0
        self._lost = max(self._lost, seen)
        repeated = [Entry(told=entry.told, sequence=entry.sequence, again=True) for entry in wanted]
        self._waiting = deque([*repeated, *fresh])
        return True

    def drop(self) -> None:
        """Forget everything: nobody reads, and there is no room. Whoever comes next has missed something."""
        self._waiting.clear()
        self._sent.clear()
        self._bytes = 0
        self._whole = False

    def restart(self, snapshot: Snapshot) -> None:
        """Forget everything, and begin with what makes it good."""
        self.drop()
        self._whole = True
        self._lost = self.sequence
        self.put(snapshot)

    def retire(self, fence: Fence) -> int:
        """Take out all audio made under `fence` or an earlier turn of its lane; returns the chunks taken out."""
        before = len(self._waiting) + len(self._sent)
        self._waiting = _without(self._waiting, lambda audio: _stale(audio.fence, fence))
        self._sent = _without(self._sent, lambda audio: _stale(audio.fence, fence))
        self._bytes = sum(entry.nbytes for entry in self._sent)
        return before - len(self._waiting) - len(self._sent)


def _without(entries: deque[Entry], stale: Callable[[Audio], bool]) -> deque[Entry]:
    return deque(entry for entry in entries if not (isinstance(entry.told, Audio) and stale(entry.told)))


def _stale(made_under: Fence, retired: Fence) -> bool:
    return made_under == retired or retired.outdates(made_under)
