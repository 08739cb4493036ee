"""The connector inside one process: a payload is passed by reference."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

from duplex.connector.base import Handle
from duplex.connector.payload import Payload, Voiced
from duplex.errors import ConnectorFull, StaleFence, UnknownHandle
from duplex.session.fence import Fence

_Lane = tuple[str, str]


@dataclass(slots=True)
class _Held:
    fence: Fence
    payload: Payload
    readers: int = 1


class MemoryConnector:
    """Keeps payloads in a dict until they are taken or their fence is retired.

    Args:
        budget_bytes: most bytes held at one time, over all sessions; a `put` past it is refused.
    """

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._keys = itertools.count()
        self._held: dict[_Lane, dict[int, _Held]] = {}
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
            self._held.setdefault(lane, {})[key] = _Held(fence, payload)
            self._nbytes += nbytes
        if isinstance(payload, Voiced):
            samples, text_end = len(payload.samples), payload.text_end
            return Handle(fence=fence, kind=payload.kind, key=key, nbytes=nbytes, samples=samples, text_end=text_end)
        return Handle(fence=fence, kind=payload.kind, key=key, nbytes=nbytes)

    def take(self, handle: Handle) -> Payload:
        lane = (handle.fence.session_id, handle.fence.lane)
        with self._lock:
            held = self._held.get(lane, {}).get(handle.key)
            if held is None:
                raise UnknownHandle(f"payload {handle.key} of {handle.fence} is gone")
            held.readers -= 1
            if held.readers == 0:
                del self._held[lane][handle.key]
                self._nbytes -= handle.nbytes
                if not self._held[lane]:
                    del self._held[lane]
        return held.payload

    def share(self, handle: Handle, readers: int) -> None:
        with self._lock:
            held = self._held.get((handle.fence.session_id, handle.fence.lane), {}).get(handle.key)
            if held is not None:
                held.readers = readers

    def retire(self, fence: Fence) -> int:
        lane = (fence.session_id, fence.lane)
        dropped = 0
        with self._lock:
            retired = self._retired.get(lane)
            if retired is None or fence.outdates(retired):
                self._retired[lane] = fence
            held = self._held.get(lane, {})
            for key, entry in list(held.items()):
                if entry.fence == fence or fence.outdates(entry.fence):
                    del held[key]
                    dropped += entry.payload.nbytes
            if not held:
                self._held.pop(lane, None)
            self._nbytes -= dropped
        return dropped

    def held(self, session_id: str) -> int:
        with self._lock:
            lanes = [lane for key, lane in self._held.items() if key[0] == session_id]
            return sum(entry.payload.nbytes for lane in lanes for entry in lane.values())

    def forget(self, session_id: str) -> int:
        dropped = 0
        with self._lock:
            for lane in [lane for lane in self._held if lane[0] == session_id]:
                dropped += sum(entry.payload.nbytes for entry in self._held.pop(lane).values())
            for lane in [lane for lane in self._retired if lane[0] == session_id]:
                del self._retired[lane]
            self._nbytes -= dropped
        return dropped
