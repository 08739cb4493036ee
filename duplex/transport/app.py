"""The one ASGI application: HTTP and WebSocket on one port."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from duplex.errors import ConfigError
from duplex.protocol.native import PATH
from duplex.session.port import SessionHost
from duplex.transport.http import Page, Routes
from duplex.transport.info import HttpSettings, ServerInfo
from duplex.transport.native.endpoint import NativeEndpoint
from duplex.transport.problem import on_fault, on_http_exception, unauthorised
from duplex.transport.security import Gate
from duplex.transport.websocket import RealtimeEndpoint


def build_app(*, host: SessionHost, info: ServerInfo, settings: HttpSettings, web: Path) -> Starlette:
    """Everything that the server answers.

    Args:
        host: opens sessions.
        info: what the routes ask of the server.
        settings: keys, origins, limits.
        web: directory of the browser's files, with an ``index.html``.

    Raises:
        ConfigError: `web` is no such directory.
    """
    if not os.access(web / "index.html", os.R_OK):
        raise ConfigError(
            f"the browser's files are not in {web}, or may not be read: reinstall, or name their directory in "
            "http.web_dir"
        )
    gate = Gate(api_key=settings.api_key, allowed_origins=settings.allowed_origins)
    realtime = RealtimeEndpoint(host=host, info=info, gate=gate, slow_reader_s=settings.slow_reader_s)
    native = NativeEndpoint(
        host=host,
        info=info,
        gate=gate,
        max_message_bytes=settings.max_message_bytes,
        slow_reader_s=settings.slow_reader_s,
    )
    routes = Routes(info=info)
    return Starlette(
        routes=[
            WebSocketRoute("/v1/realtime", realtime.serve),
            Route("/v1/realtime", realtime.explain),
            WebSocketRoute(PATH, native.serve),
            Route(PATH, native.explain),
            Route("/v1/models", routes.models),
            Route("/v1/models/{model}", routes.model),
            Route("/v1/sessions", routes.sessions),
            Route("/v1/state", routes.state),
            Route("/v1/turns/{response_id}", routes.turn),
            Route("/healthz", routes.health),
            Route("/readyz", routes.readiness),
            Route("/metrics", routes.metrics),
            Mount("/", Page(directory=web, html=True)),
        ],
        middleware=[Middleware(KeyRequired, gate=gate)],
        exception_handlers={HTTPException: on_http_exception, Exception: on_fault},
    )


class KeyRequired:
    """Asks for the API key on every HTTP path below ``/v1``. WebSockets are let through: their endpoint asks itself.

    The page, health and metrics need none: the page is where a person enters the key, and the others say nothing of
    anybody's conversation.
    """

    def __init__(self, app: ASGIApp, *, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] == "http" and scope["path"].startswith("/v1/")
        if guarded and not self._gate.knows(Headers(scope=scope)):
            await unauthorised()(scope, receive, send)
            return
        await self._app(scope, receive, send)
