"""One connection's hold on a session."""

from __future__ import annotations

from duplex.session.events import ClientEvent
from duplex.session.notices import Closed, Notice
from duplex.session.port import Audio, Entry
from duplex.session.runner import SessionRunner

REPLACED = "Another connection has taken this session over."


class Attachment:
    """`port.LeasedPort` over a runner.

    Args:
        runner: of the session.
        generation: of this connection.
        token: what the client has to show to resume; empty where it cannot.
        grace_s: how long the session waits for it.
        wire: what the transport has agreed with the client.
        resynced: whether it begins with the whole state.
    """

    def __init__(
        self,
        *,
        runner: SessionRunner,
        generation: int,
        token: str,
        grace_s: float,
        wire: object,
        resynced: bool = False,
    ) -> None:
        self.generation = generation
        self.token = token
        self.grace_s = grace_s
        self.wire = wire
        self.resynced = resynced
        self._runner = runner
        self._over = False

    @property
    def session_id(self) -> str:
        return self._runner.session_id

    async def send(self, event: ClientEvent) -> bool:
        """See `port.SessionPort.send`."""
        return await self._runner.send(event, self.generation)

    async def receive(self) -> Notice | Audio | None:
        """See `port.SessionPort.receive`."""
        entry = await self.next()
        return entry.told if entry is not None else None

    async def next(self) -> Entry | None:
        """See `port.LeasedPort.next`."""
        if self._over:
            return None
        entry = await self._runner.next(self.generation)
        if entry is None and self._runner.replaced(self.generation):
            entry = Entry(told=Closed(reason="replaced", message=REPLACED))
        self._over = entry is None or isinstance(entry.told, Closed)
        return entry

    def acknowledge(self, sequence: int) -> None:
        """See `port.LeasedPort.acknowledge`."""
        self._runner.acknowledge(sequence, self.generation)

    def detach(self) -> bool:
        """The connection is gone; True where the session may outlive it."""
        self._runner.detach(self.generation)
        return self.grace_s > 0

    def abandon(self) -> None:
        """The connection is gone before the client was told anything: nobody has the token to resume with."""
        self._runner.close("disconnected")
