"""How uvicorn is set up for sessions."""

from __future__ import annotations

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from duplex.transport.info import HttpSettings

ABORT = "duplex.abort"
"""Name of the scope extension that holds a function: drop the connection at once, whatever is still unsent."""


class SessionWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection, with three additions.

    The application can drop it. ASGI has no word for that: `websocket.close` waits behind what is unsent, for ever
    where the client does not read.

    Whatever ends the connection, it ends in time. uvicorn 0.54.0 only ever asks the transport to close once its buffer
    is empty, and a client that does not read would hold the socket, and the server's own shutdown, for as long as it
    likes.

    A handshake that was answered with an HTTP response counts as complete. uvicorn 0.54.0 forgets to note it, and then
    logs each refusal as a fault of the application.
    """

    linger_s = 5.0
    """Time in which a closing connection may still send what it holds, and the client may say goodbye."""

    def handle_connect(self, event: Request) -> None:
        """The handshake has been read. The application runs only after this, and finds the extension in its scope."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"][ABORT] = {"abort": self.transport.abort}

    async def send(self, message: ASGISendEvent) -> None:
        """Take a message of the application."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True
        if self.close_sent:
            self._abort_in_time()

    def keepalive_timeout(self) -> None:
        """The client has not answered a ping."""
        super().keepalive_timeout()
        self._abort_in_time()

    def shutdown(self) -> None:
        """The server stops."""
        super().shutdown()
        self._abort_in_time()

    def _abort_in_time(self) -> None:
        self.loop.call_later(self.linger_s, self.transport.abort)


def uvicorn_config(*, app: ASGIApp, settings: HttpSettings, shutdown_s: float, port: int, host: str) -> Config:
    """One process, uvloop, sans-IO WebSockets without deflate, which costs six times the CPU of what it compresses.

    Args:
        app: what `build_app` gave.
        settings: of these the longest message is taken.
        shutdown_s: patience with connections that are open when the server stops.
        host, port: where to listen, unless sockets are given to `Server.serve`.
    """
    return Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http="h11",
        ws=SessionWebSocket,
        ws_max_size=settings.max_message_bytes,
        ws_per_message_deflate=False,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(shutdown_s),
    )
