"""`WS /v1/realtime`: the handshake, and a connection for each client that is let in."""

from __future__ import annotations

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from duplex.errors import AdmissionRefused
from duplex.session.port import SessionHost
from duplex.transport.channel import Channel
from duplex.transport.connection import Connection
from duplex.transport.info import ServerInfo
from duplex.transport.openai_realtime.dialect import OpenAIDialect
from duplex.transport.problem import busy, not_ready, problem
from duplex.transport.security import Gate


class RealtimeEndpoint:
    """Answers WebSocket handshakes.

    Refusals come before the upgrade, as HTTP: 403 for a page of a foreign origin, 401 without the key, 400 for another
    kind of session, 404 for an unknown model, 503 with Retry-After while starting, or where the queue is full too.

    Args:
        host: opens sessions.
        info: the server.
        gate: who may come in.
        slow_reader_s: a client that takes nothing for so long is cut off.
    """

    def __init__(self, *, host: SessionHost, info: ServerInfo, gate: Gate, slow_reader_s: float) -> None:
        self._host = host
        self._info = info
        self._gate = gate
        self._slow_reader_s = slow_reader_s

    async def serve(self, socket: WebSocket) -> None:
        """Run one connection from its handshake to its end. Returns when nothing of it is left."""
        refusal = self._refusal(socket)
        if refusal is None:
            refusal = await self._converse(socket)
        if refusal is not None:
            await socket.send_denial_response(refusal)

    async def explain(self, request: Request) -> Response:
        """``GET /v1/realtime`` without an upgrade: why a session would be refused, or else how to ask for one.

        A browser tells its page nothing of a refused handshake; this it can read.
        """
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        if (refused := self._host.refusal()) is not None:
            return busy(refused)
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        return problem(426, "Sessions are held over a WebSocket.", code="upgrade_required", headers=headers)

    def _refusal(self, asking: HTTPConnection) -> Response | None:
        if (refusal := self._gate.refusal(asking)) is not None:
            return refusal
        query = asking.query_params
        for name in ("intent", "call_id"):
            if query.get(name, "realtime") != "realtime":
                message = f"Only new realtime sessions are served here: connect without {name}."
                return problem(400, message, code="unsupported", param=name)
        models = self._info.served.models
        if (model := query.get("model", models[0])) not in models:
            message = (
                f"There is no model {model[:60]!r}; connect with ?model={models[0]} (served: {', '.join(models)})."
            )
            return problem(404, message, code="model_not_found", param="model")
        return None if self._info.ready else not_ready()

    async def _converse(self, socket: WebSocket) -> Response | None:
        try:
            async with self._host.open() as port:
                channel = Channel(socket=socket, name=port.session_id, slow_reader_s=self._slow_reader_s)
                dialect = OpenAIDialect(served=self._info.served)
                await Connection(channel=channel, port=port, dialect=dialect).run()
        except AdmissionRefused as refused:
            return busy(refused)
        return None
