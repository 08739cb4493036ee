"""One WebSocket of a session, whichever protocol is spoken on it.

Two tasks: a reader, from the socket into the session, and a writer the other way. Neither keeps a queue. Where the
session's mailbox is full the reader waits, uvicorn then stops reading the socket, and TCP makes the client wait;
nothing is dropped. The writer asks the session for the next thing only when the last one has been taken, so that an
interruption finds whatever is unsent still in the session, where it is taken out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from duplex.transport.closing import Farewell
from duplex.transport.serve import ABORT, GONE

log = logging.getLogger(__name__)

MAX_REFUSED = 100
"""Messages refused one after another, after which the client is taken to be broken or hostile."""

Side = Coroutine[Any, Any, Farewell | None]
"""What one side of a connection does; returns how the connection ends, or None where the client has gone."""


class CutOff(Exception):
    """The client is not worth a close frame any more: it would not get through, or nobody would read it."""


class Channel:
    """Carries messages, and ends in time.

    Args:
        socket: not accepted yet.
        name: of the session or the client, for the log.
        slow_reader_s: a client that takes nothing for so long is cut off.
    """

    def __init__(self, *, socket: WebSocket, name: str, slow_reader_s: float) -> None:
        self.name = name
        self._socket = socket
        self._slow_reader_s = slow_reader_s

    async def carry(self, conversation: Side) -> None:
        """Run `conversation`, and close as it says. Raises nothing that the client can cause."""
        end = await self._unless_gone(conversation)
        if end is not None:
            await self._unless_gone(self._close(end))

    async def accept(self, subprotocol: str) -> None:
        """Take the handshake, with the subprotocol if it is offered."""
        offered = self._socket.scope.get("subprotocols", [])
        await self._socket.accept(subprotocol=subprotocol if subprotocol in offered else None)

    async def first_of(self, **sides: Side) -> Farewell | None:
        """Run the sides of a connection, by name, until one is through; the others end with it."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._unless_gone(side), name=f"{name} {self.name}") for name, side in sides.items()
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            over = next(task for task in tasks if task.done())
            for task in tasks:
                task.cancel()
        return over.result()

    async def receive(self) -> str | bytes | None:
        """The next message; None where the client has closed the connection."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        received: str | bytes | None = message.get("text")
        return received if received is not None else bytes(message["bytes"])

    async def send(self, message: str | bytes) -> None:
        """Returns when the network has taken it. Raises CutOff where that takes too long."""
        if isinstance(message, str):
            await self._in_time(self._socket.send_text(message))
        else:
            await self._in_time(self._socket.send_bytes(message))

    async def gone(self) -> None:
        """Wait until the client has gone, whatever of it is still unread; where that is not told, for ever."""
        extension = self._socket.scope.get("extensions", {}).get(GONE)
        await (extension["event"] if extension is not None else asyncio.Event()).wait()

    async def _unless_gone(self, side: Side) -> Farewell | None:
        try:
            return await side
        except WebSocketDisconnect:
            log.info("%s: the client went away", self.name)
        except CutOff as why:
            log.info("%s: the client %s and is cut off", self.name, why)
            extension = self._socket.scope.get("extensions", {}).get(ABORT)
            if extension is not None:
                extension["abort"]()
        return None

    async def _close(self, end: Farewell) -> None:
        await self._in_time(self._socket.close(end.code, end.reason))

    async def _in_time(self, sending: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._slow_reader_s):
                await sending
        except TimeoutError:
            raise CutOff("reads too slowly") from None
