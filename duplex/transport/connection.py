"""One socket and its session, from the accept to the end.

Two tasks: a reader, from the socket through the dialect into the session, and a writer the other way. Neither keeps a
queue. Where the session's mailbox is full the reader waits, uvicorn then stops reading the socket, and TCP makes the
client wait; nothing is dropped. The writer asks the session for the next thing only when the last one has been taken,
so that an interruption finds whatever is unsent still in the session, where it is taken out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from duplex.errors import ClientError
from duplex.protocol.openai_realtime.server import ServerEvent
from duplex.session.notices import Closed, Queued
from duplex.session.port import SessionPort
from duplex.transport.openai_realtime import closing
from duplex.transport.openai_realtime.closing import Farewell
from duplex.transport.openai_realtime.dialect import OpenAIDialect
from duplex.transport.serve import ABORT, GONE

log = logging.getLogger(__name__)

SUBPROTOCOL = "realtime"

MAX_REFUSED = 100
"""Messages refused one after another, after which the client is taken to be broken or hostile."""

_encoder = msgspec.json.Encoder()


class _Stalled(Exception):
    """The client has taken nothing for too long."""


class Connection:
    """Carries one session over one WebSocket.

    Args:
        socket: not accepted yet.
        port: the session.
        dialect: fresh, this connection's own.
        slow_reader_s: a client that takes nothing for so long is cut off.
    """

    def __init__(self, *, socket: WebSocket, port: SessionPort, dialect: OpenAIDialect, slow_reader_s: float) -> None:
        self._socket = socket
        self._port = port
        self._dialect = dialect
        self._slow_reader_s = slow_reader_s
        self._begun = asyncio.Event()

    async def run(self) -> None:
        """Carry the session until either side ends it. Raises nothing that the client can cause."""
        farewell = await self._unless_gone(self._carry())
        if farewell is not None:
            await self._unless_gone(self._close(farewell))

    async def _unless_gone(self, side: Coroutine[Any, Any, Farewell | None]) -> Farewell | None:
        """What `side` returns, or None where the client has gone away or has stopped reading."""
        try:
            return await side
        except WebSocketDisconnect:
            log.info("session %s: the client went away", self._port.session_id)
        except _Stalled:
            # Its buffers are full, so neither a close frame nor an orderly end of the TCP stream would get through.
            log.info("session %s: the client reads too slowly and is cut off", self._port.session_id)
            self._abort()
        return None

    async def _carry(self) -> Farewell | None:
        """Accept, then run reader and writer until one is through, which says how the connection ends, or until the
        client has gone: what it has sent and the session has not come to is nobody's any more."""
        offered = self._socket.scope.get("subprotocols", [])
        await self._socket.accept(subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None)
        session_id = self._port.session_id
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(self._unless_gone(self._read()), name=f"reader {session_id}")
            writer = tasks.create_task(self._unless_gone(self._write()), name=f"writer {session_id}")
            gone = tasks.create_task(self._gone(), name=f"end of {session_id}")
            await asyncio.wait((writer, reader, gone), return_when=asyncio.FIRST_COMPLETED)
            over = next(task for task in (writer, reader, gone) if task.done())
            for task in (reader, writer, gone):
                task.cancel()
        return over.result()

    async def _gone(self) -> Farewell | None:
        """Wait until the client has gone; where that is not told, the reader comes to it."""
        extension = self._socket.scope.get("extensions", {}).get(GONE)
        await (extension["event"] if extension is not None else asyncio.Event()).wait()
        return None

    async def _read(self) -> Farewell | None:
        refused = 0
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            # In the queue there is no session yet that it could be for. No more than this one is read: with none at
            # all, a client that goes away would keep its number.
            await self._begun.wait()
            text = message.get("text")
            try:
                events = self._dialect.decode(text if text is not None else message["bytes"])
            except ClientError as error:
                refused += 1
                await self._send([self._dialect.error(error)])
                if refused == MAX_REFUSED:
                    return closing.farewell(closing.POLICY, f"{refused} messages in a row could not be taken")
                continue
            refused = 0
            for count, event in enumerate(events):
                if count:
                    # Minutes of audio may come in one message; the other sessions have their turn between its slices.
                    await asyncio.sleep(0)
                await self._port.send(event)

    async def _write(self) -> Farewell:
        while (told := await self._port.receive()) is not None:
            await self._send(self._dialect.encode(told))
            if not isinstance(told, Queued):
                self._begun.set()
            if isinstance(told, Closed):
                return closing.farewell(closing.code_of(told), told.message)
        return closing.farewell(closing.INTERNAL, "the session ended without a word")

    async def _send(self, events: list[ServerEvent]) -> None:
        try:
            async with asyncio.timeout(self._slow_reader_s):
                for event in events:
                    await self._socket.send_text(_encoder.encode(event).decode())
        except TimeoutError:
            raise _Stalled from None

    async def _close(self, farewell: Farewell) -> None:
        try:
            async with asyncio.timeout(self._slow_reader_s):
                await self._socket.close(farewell.code, farewell.reason)
        except TimeoutError:
            raise _Stalled from None

    def _abort(self) -> None:
        extension = self._socket.scope.get("extensions", {}).get(ABORT)
        if extension is not None:
            extension["abort"]()
