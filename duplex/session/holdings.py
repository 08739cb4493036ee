"""What a session holds in the books: its conversation, as typed state of the server's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from duplex.errors import ClientError, StateError, StateFull
from duplex.session.conversation import Conversation
from duplex.session.core import Session
from duplex.session.events import Configure, CreateItem, Event
from duplex.session.item import Item
from duplex.state.kind import StateKind
from duplex.state.ledger import Storage
from duplex.state.ref import StateKey
from duplex.state.store import StateStore

OWNER = "session"
HOST_MEMORY = "host"
"""The device where a session's own state lies."""

CONVERSATION = "conversation"


class ConversationState:
    """A conversation, and the instructions that it is led by. It cannot be made again, so it is never evicted.

    Staged is the answer under way: in the history it has no words before it has ended, and then those that were heard.
    So the core has done already what `commit` and `discard` say, and they only count.

    Args:
        core: the session.
    """

    kind = StateKind.CONVERSATION
    rebuild_s = None
    in_use = False

    def __init__(self, *, core: Session) -> None:
        self._core = core

    @property
    def _conversation(self) -> Conversation:
        return self._core.conversation

    @property
    def length(self) -> int:
        return len(self.view())

    @property
    def nbytes(self) -> int:
        """What it takes now, with what is staged."""
        instructions = sys.getsizeof(self._core.settings.instructions)
        return self._conversation.nbytes + instructions + self._core.answering.staged_bytes

    def storages(self) -> Iterable[Storage]:
        return (Storage(self._core.session_id, HOST_MEMORY, self.nbytes),)

    def stage(self) -> None:
        """An answer is being made, or something else is about to change."""

    def commit(self) -> None:
        """It has changed."""

    def discard(self) -> None:
        """The answer has gone, and nothing of it is in the history but what was heard."""

    def view(self) -> tuple[Item, ...]:
        """The items that are whole."""
        return tuple(item for item in self._conversation.items if item.status != "in_progress")

    def snapshot(self) -> tuple[Item, ...]:
        """Items are never changed, so these are theirs who take them."""
        return self.view()

    def restore(self, snapshot: object) -> None:
        """Raises StateError where it is no snapshot of a conversation."""
        if not isinstance(snapshot, tuple):
            raise StateError("this is no snapshot of a conversation")
        for item in self._conversation.items:
            self._conversation.delete(item.item_id)
        for item in snapshot:
            self._conversation.insert(item)

    def findings(self) -> Iterable[str]:
        counted = sum(item.nbytes for item in self._conversation.items)
        if counted != self._conversation.nbytes:
            yield f"its items take {counted} bytes, and {self._conversation.nbytes} are counted"

    def close(self) -> None:
        """It goes with its session."""


class Holdings:
    """Keeps one session's entry in the store up to date with what its core has decided.

    Args:
        core: the session.
        store: of all sessions.

    Raises:
        StateFull: there is no memory for one more.
    """

    def __init__(self, *, core: Session, store: StateStore[ConversationState]) -> None:
        self._core = core
        self._store = store
        self._key = StateKey(core.session_id, CONVERSATION)
        self._fence = core.answering.fence
        self._revision = core.conversation.revision
        self._value = ConversationState(core=core)
        self._nbytes = self._value.nbytes
        self._promised = 0
        store.allocate(self._key, {HOST_MEMORY: self._nbytes}, lambda: self._value)
        store.advance(self._fence)

    def refusal(self, event: Event) -> ClientError | None:
        """What a client is told that wants to put in more than there is room for; None where there is room.

        The room stays its own until `settle`.
        """
        match event:
            case CreateItem(item=item):
                wanted, param = item.nbytes, "item"
            case Configure(settings=settings):
                wanted = sys.getsizeof(settings.instructions) - sys.getsizeof(self._core.settings.instructions)
                param = "session.instructions"
            case _:
                return None
        try:
            self._store.stage(self._key, self._fence, {HOST_MEMORY: max(0, wanted)})
            self._promised = max(1, wanted)
        except StateFull:
            message = "The server's memory for sessions is spent; shorten this, delete items, or try again later."
            return ClientError(message, code="state_full", param=param, event_id=event.event_id, kind="server_error")
        return None

    def settle(self) -> bool:
        """The core has taken an event. False where what it holds by now has no room: the session cannot be kept whole.

        The fence moves first: what was staged under an earlier one is void before anything else is counted.
        """
        core, key = self._core, self._key
        moved, self._fence = core.answering.fence != self._fence, core.answering.fence
        nbytes, revision = self._value.nbytes, core.conversation.revision
        grown, changed, promised = nbytes - self._nbytes, revision != self._revision, self._promised
        self._nbytes, self._revision, self._promised = nbytes, revision, 0
        try:
            if moved:
                self._store.advance(self._fence)
            if changed or grown:
                self._store.stage(key, self._fence, {HOST_MEMORY: max(0, grown - promised)})
            if changed:
                self._store.commit(key, self._fence)
            elif grown < 0 or (promised and not core.answering.staged_bytes):
                self._store.reset(key)
        except StateFull:
            return False
        return True

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._nbytes
