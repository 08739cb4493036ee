"""`WS /v1/duplex`: the handshake, and a connection for each client that is let in."""

from __future__ import annotations

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from duplex.session.port import SessionHost
from duplex.transport.channel import Channel
from duplex.transport.info import ServerInfo
from duplex.transport.native.connection import NativeConnection
from duplex.transport.native.refusal import MAX_TEXT_BYTES
from duplex.transport.problem import busy, not_ready, problem
from duplex.transport.security import Gate

HEARTBEAT_S = 5.0


class NativeEndpoint:
    """Answers WebSocket handshakes.

    Refusals come before the upgrade, as HTTP: 403 for a page of a foreign origin, 401 without the key, 503 with
    Retry-After while starting. Where the queue is full too, the refusal comes after it, as the message `error`: only
    the first message says whether the client wants a session or has one.

    Args:
        host: opens sessions, and keeps those that wait.
        info: the server.
        gate: who may come in.
        max_message_bytes: longest message taken, but for what the protocol itself bounds lower.
        slow_reader_s: a client that takes nothing for so long is cut off.
        heartbeat_s: a client that says nothing for three times as long is taken to be gone; `HEARTBEAT_S` by default.
    """

    def __init__(
        self,
        *,
        host: SessionHost,
        info: ServerInfo,
        gate: Gate,
        max_message_bytes: int,
        slow_reader_s: float,
        heartbeat_s: float | None = None,
    ) -> None:
        self._host = host
        self._info = info
        self._gate = gate
        self._max_message_bytes = min(max_message_bytes, MAX_TEXT_BYTES)
        self._slow_reader_s = slow_reader_s
        self._heartbeat_s = HEARTBEAT_S if heartbeat_s is None else heartbeat_s

    async def serve(self, socket: WebSocket) -> None:
        """Run one connection from its handshake to its end. Returns when nothing of it is left."""
        refusal = self._refusal(socket)
        if refusal is not None:
            await socket.send_denial_response(refusal)
            return
        channel = Channel(socket=socket, name="native protocol", slow_reader_s=self._slow_reader_s)
        connection = NativeConnection(
            channel=channel,
            host=self._host,
            served=self._info.served,
            max_message_bytes=self._max_message_bytes,
            heartbeat_s=self._heartbeat_s,
        )
        await connection.run()

    async def explain(self, request: Request) -> Response:
        """``GET /v1/duplex`` without an upgrade: why a session would be refused, or else how to ask for one."""
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        if (refused := self._host.refusal()) is not None:
            return busy(refused)
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        return problem(426, "Sessions are held over a WebSocket.", code="upgrade_required", headers=headers)

    def _refusal(self, asking: HTTPConnection) -> Response | None:
        return self._gate.refusal(asking) or (None if self._info.ready else not_ready())
