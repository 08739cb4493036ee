"""The connector inside one process: a payload is passed by reference."""

from __future__ import annotations

import itertools
import threading

from duplex.connector.base import Handle
from duplex.connector.payload import Payload
from duplex.errors import ConnectorFull, StaleFence, UnknownHandle
from duplex.session.fence import Fence

_Lane = tuple[str, str]


class MemoryConnector:
    """Keeps payloads in a dict until they are taken or their fence is retired.

    Args:
        budget_bytes: most bytes held at one time, over all sessions; a `put` past it is refused.
    """

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._keys = itertools.count()
        self._held: dict[_Lane, dict[int, tuple[Fence, Payload]]] = {}
        self._retired: dict[_Lane, Fence] = {}
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._nbytes

    def __len__(self) -> int:
        """Payloads held now."""
        return sum(len(lane) for lane in self._held.values())

    def put(self, fence: Fence, payload: Payload) -> Handle:
        nbytes = payload.nbytes
        with self._lock:
            lane = (fence.session_id, fence.lane)
            retired = self._retired.get(lane)
            if retired is not None and not fence.outdates(retired):
                raise StaleFence(f"{fence} has been retired")
            if self._nbytes + nbytes > self._budget_bytes:
                raise ConnectorFull(f"{nbytes} more bytes would pass the budget of {self._budget_bytes}")
            key = next(self._keys)
            self._held.setdefault(lane, {})[key] = (fence, payload)
            self._nbytes += nbytes
        return Handle(fence=fence, kind=payload.kind, key=key, nbytes=nbytes)

    def take(self, handle: Handle) -> Payload:
        lane = (handle.fence.session_id, handle.fence.lane)
        with self._lock:
            held = self._held.get(lane, {}).pop(handle.key, None)
            if held is None:
                raise UnknownHandle(f"payload {handle.key} of {handle.fence} is gone")
            self._nbytes -= handle.nbytes
            if not self._held[lane]:
                del self._held[lane]
        return held[1]

    def retire(self, fence: Fence) -> int:
        lane = (fence.session_id, fence.lane)
        dropped = 0
        with self._lock:
            retired = self._retired.get(lane)
            if retired is None or fence.outdates(retired):
                self._retired[lane] = fence
            held = self._held.get(lane, {})
            for key, (made_under, payload) in list(held.items()):
                if made_under == fence or fence.outdates(made_under):
                    del held[key]
                    dropped += payload.nbytes
            if not held:
                self._held.pop(lane, None)
            self._nbytes -= dropped
        return dropped

    def forget(self, session_id: str) -> int:
        dropped = 0
        with self._lock:
            for lane in [lane for lane in self._held if lane[0] == session_id]:
                dropped += sum(payload.nbytes for _, payload in self._held.pop(lane).values())
            for lane in [lane for lane in self._retired if lane[0] == session_id]:
                del self._retired[lane]
            self._nbytes -= dropped
        return dropped
