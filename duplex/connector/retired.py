"""Which turns are over, as a connector must know it. Pure."""

from __future__ import annotations

from duplex.session.fence import Fence


class RetiredFences:
    """Keeps the newest retired fence of each lane: with it all earlier ones of that lane are retired."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], Fence] = {}

    def add(self, fence: Fence) -> None:
        lane = (fence.session_id, fence.lane)
        newest = self._newest.get(lane)
        if newest is None or fence.outdates(newest):
            self._newest[lane] = fence

    def has(self, fence: Fence) -> bool:
        newest = self._newest.get((fence.session_id, fence.lane))
        return newest is not None and not fence.outdates(newest)

    def forget(self, session_id: str) -> None:
        """The session is over; its fences are asked about no more."""
        for lane in [lane for lane in self._newest if lane[0] == session_id]:
            del self._newest[lane]
