"""One connection of OpenAI's protocol and its session, from the accept to the end of both."""

from __future__ import annotations

import asyncio

import msgspec

from duplex.errors import ClientError
from duplex.protocol.openai_realtime.server import ServerEvent
from duplex.session.notices import Closed, Queued
from duplex.session.port import SessionPort
from duplex.transport.channel import MAX_REFUSED, Channel
from duplex.transport.closing import INTERNAL, POLICY, Farewell, code_of, farewell
from duplex.transport.openai_realtime.dialect import OpenAIDialect

SUBPROTOCOL = "realtime"

_encoder = msgspec.json.Encoder()


class Connection:
    """Carries one session over one WebSocket.

    Args:
        channel: not accepted yet.
        port: the session.
        dialect: fresh, this connection's own.
    """

    def __init__(self, *, channel: Channel, port: SessionPort, dialect: OpenAIDialect) -> None:
        self._channel = channel
        self._port = port
        self._dialect = dialect
        self._begun = asyncio.Event()

    async def run(self) -> None:
        """Carry the session until either side ends it. Raises nothing that the client can cause."""
        await self._channel.carry(self._carry())

    async def _carry(self) -> Farewell | None:
        """Accept, then run reader and writer until one is through, which says how the connection ends, or until the
        client has gone: what it has sent and the session has not come to is nobody's any more."""
        await self._channel.accept(SUBPROTOCOL)
        return await self._channel.first_of(writer=self._write(), reader=self._read(), end=self._channel.gone())

    async def _read(self) -> Farewell | None:
        refused = 0
        while (message := await self._channel.receive()) is not None:
            # In the queue there is no session yet that it could be for. No more than this one is read: with none at
            # all, a client that goes away would keep its number.
            await self._begun.wait()
            try:
                events = self._dialect.decode(message)
            except ClientError as error:
                refused += 1
                await self._send([self._dialect.error(error)])
                if refused == MAX_REFUSED:
                    return farewell(POLICY, f"{refused} messages in a row could not be taken")
                continue
            refused = 0
            for count, event in enumerate(events):
                if count:
                    # Minutes of audio may come in one message; the other sessions have their turn between its slices.
                    await asyncio.sleep(0)
                await self._port.send(event)
        return None

    async def _write(self) -> Farewell:
        while (told := await self._port.receive()) is not None:
            await self._send(self._dialect.encode(told))
            if not isinstance(told, Queued):
                self._begun.set()
            if isinstance(told, Closed):
                return farewell(code_of(told), told.message)
        return farewell(INTERNAL, "the session ended without a word")

    async def _send(self, events: list[ServerEvent]) -> None:
        for event in events:
            await self._channel.send(_encoder.encode(event).decode())
