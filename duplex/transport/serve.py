"""How uvicorn is set up for sessions."""

from __future__ import annotations

import asyncio

import h11
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode
from websockets.http11 import Request

from duplex.transport.info import HttpSettings

ABORT = "duplex.abort"
"""Name of the scope extension that holds a function: drop the connection at once, whatever is still unsent."""


class SessionHttp(H11Protocol):
    """uvicorn's HTTP connection, on which a request has to arrive in time.

    uvicorn 0.54.0 waits for the rest of a request for ever, and whoever opens connections and says no more takes all
    the files that the server may open.
    """

    request_s = 10.0
    """Time for a whole request, from the connection or from its first byte on. None of ours has more than a head."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """There is a client."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """There is more of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        self._rest()

    def _watch(self) -> None:
        # The request that has become a WebSocket counts as unfinished for h11, and is none of ours any more.
        upgraded = self.transport.get_protocol() is not self
        if upgraded or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.request_s, self.transport.abort)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class SessionWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection, with five additions.

    The application can drop it. ASGI has no word for that: `websocket.close` waits behind what is unsent, for ever
    where the client does not read.

    Whatever ends the connection, it ends in time. uvicorn 0.54.0 only ever asks the transport to close once its buffer
    is empty, and a client that does not read would hold the socket, and the server's own shutdown, for as long as it
    likes.

    A handshake that was answered with an HTTP response counts as complete. uvicorn 0.54.0 forgets to note it, and then
    logs each refusal as a fault of the application.

    What a client does wrong is answered, and is no fault of the server's. uvicorn 0.54.0 leaves a handshake that is too
    large unanswered and its connection open, and logs text that is not UTF-8 with a traceback.

    A client that is made to wait is not held to answer. uvicorn 0.54.0 does not read while a message waits for the
    application, takes the pong that it has not read for one that did not come, and cuts off whoever waits in the queue.
    """

    linger_s = 5.0
    """Time in which a closing connection may still send what it holds, and the client may say goodbye."""

    def handle_connect(self, event: Request) -> None:
        """The handshake has been read. The application runs only after this, and finds the extension in its scope."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"][ABORT] = {"abort": self.transport.abort}

    def data_received(self, data: bytes) -> None:
        """There is more of the handshake, or of a frame."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # websockets has refused it before there was a request, and has its answer ready.
            self.handshake_complete = self.close_sent = True
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
        if self.transport.is_closing():
            self._abort_in_time()

    def send_receive_event_to_app(self) -> None:
        """A message is whole."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            self.frames = [b"".join(self.frames)]
            if not _is_text(self.frames[0]):
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        """Take a message of the application."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True
        if self.close_sent:
            self._abort_in_time()

    def keepalive_timeout(self) -> None:
        """The client has not answered a ping, as far as was read."""
        if self.read_paused:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._abort_in_time()

    def shutdown(self) -> None:
        """The server stops."""
        super().shutdown()
        self._abort_in_time()

    def _abort_in_time(self) -> None:
        self.loop.call_later(self.linger_s, self.transport.abort)


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


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
        http=SessionHttp,
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
