"""One connection of the native protocol, from the accept to the end; its session may outlive it."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from duplex.errors import AdmissionRefused, ClientError
from duplex.protocol.native import SUBPROTOCOL, client, server
from duplex.session.events import Unreadable
from duplex.session.notices import Closed, Opened
from duplex.session.port import LeasedPort, SessionHost, Terms
from duplex.transport.channel import MAX_REFUSED, Channel, CutOff
from duplex.transport.closing import INTERNAL, NORMAL, POLICY, TRY_AGAIN_LATER, Farewell, code_of, farewell
from duplex.transport.info import Served
from duplex.transport.native import refusal
from duplex.transport.native.outgoing import Outgoing, refused, text
from duplex.transport.native.wire import Wire

FIRST_S = 10.0
"""A connection that does not say in this time what it wants is closed."""

SILENT_BEATS = 3
"""Heartbeats that may be missing."""


class _Left(Exception):
    """The client has waited long enough: there is no session that could tell it so."""


class NativeConnection:
    """Carries a session over one WebSocket.

    Args:
        channel: not accepted yet.
        host: opens sessions, or has the one that is to be resumed.
        served: what there is to be had.
        max_message_bytes: told to the client.
        heartbeat_s: a client that says nothing for three times as long is taken to be gone.
    """

    def __init__(
        self,
        *,
        channel: Channel,
        host: SessionHost,
        served: Served,
        max_message_bytes: int,
        heartbeat_s: float,
    ) -> None:
        self._channel = channel
        self._host = host
        self._served = served
        self._max_message_bytes = max_message_bytes
        self._heartbeat_s = heartbeat_s

    async def run(self) -> None:
        """Carry a session until either side ends the connection. Raises nothing that the client can cause."""
        await self._channel.carry(self._carry())

    async def _carry(self) -> Farewell | None:
        await self._channel.accept(SUBPROTOCOL)
        async with AsyncExitStack() as stack:
            try:
                first = await self._first()
                if first is None:
                    return None
                refusal.check_version(first.version)
                port = await stack.enter_async_context(self._session(first))
            except ClientError as error:
                await self._channel.send(text(refused(error)))
                return farewell(POLICY, error.message)
            except AdmissionRefused as full:
                no_place = ClientError(str(full), code="server_full")
                await self._channel.send(text(refused(no_place, retry_after_s=full.retry_after_s)))
                return farewell(TRY_AGAIN_LATER, str(full))
            return await self._hold(port, first)

    async def _first(self) -> client.Open | client.Resume | None:
        """What the client wants; None where it has gone already. Raises ClientError for anything else than one."""
        try:
            async with asyncio.timeout(FIRST_S):
                received = await self._channel.receive()
        except TimeoutError:
            message = f"Nothing was asked for within {FIRST_S:g} s; begin with open or resume."
            raise ClientError(message, code="open_first") from None
        if received is None:
            return None
        first = refusal.decode(received) if isinstance(received, str) else None
        if isinstance(first, client.Open | client.Resume):
            return first
        raise ClientError("A connection begins with open or resume.", code="open_first")

    def _session(self, first: client.Open | client.Resume) -> AbstractAsyncContextManager[LeasedPort]:
        match first:
            case client.Open():
                wire = Wire(opening=first, served=self._served)
                acknowledged = first.playback == "acknowledged"
                return self._host.open(Terms(resumable=first.resumable, acknowledged=acknowledged, wire=wire))
            case client.Resume():
                return self._host.resume(first.session_id, token=first.token, seen=first.seen)

    async def _hold(self, port: LeasedPort, first: client.Open | client.Resume) -> Farewell | None:
        wire = port.wire
        if not isinstance(wire, Wire):
            raise TypeError("this session is not one of the native protocol")
        self._channel.name = port.session_id
        outgoing = Outgoing(
            port=port, wire=wire, max_message_bytes=self._max_message_bytes, heartbeat_s=self._heartbeat_s
        )
        begun = asyncio.Event()
        if isinstance(first, client.Resume):
            await self._channel.send(outgoing.resumed())
            begun.set()
        return await self._channel.first_of(
            writer=self._write(port, wire, outgoing, begun),
            reader=self._read(port, wire, begun),
            end=self._gone(begun),
        )

    async def _gone(self, begun: asyncio.Event) -> Farewell | None:
        """Wait until the client has gone from the queue: what it had sent is nobody's any more.

        Later the reader comes to it, and before it to all that the client had sent.
        """
        await self._channel.gone()
        if begun.is_set():
            await _for_ever()
        return None

    async def _begin(self, opened: Opened, port: LeasedPort, wire: Wire) -> None:
        """The session has begun; what the client wanted of it when it asked comes before all else."""
        wire.settings = opened.settings
        if (patch := wire.opening.settings) is not None:
            try:
                wire.configure(patch, wire.opening.id)
            except ClientError as error:
                error.event_id = wire.opening.id
                await self._channel.send(text(refused(error)))
        await self._deliver(port, wire)

    async def _deliver(self, port: LeasedPort, wire: Wire) -> None:
        """Hand the session what it has not taken yet."""
        while wire.unsent:
            if not await port.send(wire.unsent[0]):
                await _for_ever()  # It is over here, and the writer knows why.
            wire.unsent.popleft()

    # The client's side ----------------------------------------------------------------------

    async def _read(self, port: LeasedPort, wire: Wire, begun: asyncio.Event) -> Farewell | None:
        strikes = 0
        while True:
            if begun.is_set():
                await self._deliver(port, wire)
            received = await self._heard(begun)
            if received is None:
                return None
            try:
                await self._take(received, port, wire, begun)
                strikes = 0
            except _Left:
                return farewell(NORMAL, "The client has left the queue.")
            except ClientError as error:
                strikes += 1
                if begun.is_set():
                    wire.unsent.append(Unreadable(error=error))  # Told in its place and by number, so not lost either.
                else:
                    await self._channel.send(text(refused(error)))
                if strikes == MAX_REFUSED:
                    return farewell(POLICY, f"{strikes} messages in a row could not be taken")

    async def _take(self, received: str | bytes, port: LeasedPort, wire: Wire, begun: asyncio.Event) -> None:
        """One message. What is for the session waits for it, and no more is read then."""
        if isinstance(received, bytes):
            await begun.wait()
            wire.take_frame(received)
            return
        match message := refusal.decode(received):
            case client.Ack(sequence=sequence):
                port.acknowledge(sequence)
            case client.Heartbeat(at=at):
                await self._channel.send(text(server.Heartbeat(at=at, taken=wire.taken)))
            case client.Open() | client.Resume():
                raise ClientError(
                    "This connection has its session; open another one for another.",
                    code="already_open",
                    event_id=message.id,
                )
            case client.Close() if not begun.is_set():
                raise _Left
            case _:
                await begun.wait()
                wire.take(message)

    async def _heard(self, begun: asyncio.Event) -> str | bytes | None:
        while True:
            queued = not begun.is_set()  # and does not know yet how often it has to say something
            try:
                async with asyncio.timeout(SILENT_BEATS * self._heartbeat_s):
                    return await self._channel.receive()
            except TimeoutError:
                if not queued:
                    raise CutOff("has been silent for too long") from None

    # The session's side ---------------------------------------------------------------------

    async def _write(self, port: LeasedPort, wire: Wire, outgoing: Outgoing, begun: asyncio.Event) -> Farewell | None:
        while (entry := await port.next()) is not None:
            await self._channel.send(outgoing.encode(entry))
            if isinstance(entry.told, Opened) and not begun.is_set():
                await self._begin(entry.told, port, wire)
                begun.set()
            if isinstance(entry.told, Closed):
                return farewell(code_of(entry.told), entry.told.message)
        return farewell(INTERNAL, "the session ended without a word")


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
