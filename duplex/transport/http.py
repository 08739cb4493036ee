"""The HTTP routes: models, turns, health, metrics, and the browser's page."""

from __future__ import annotations

from os import PathLike, stat_result

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from duplex.protocol.openai_realtime.models import Model, ModelList
from duplex.transport.info import ServerInfo
from duplex.transport.problem import not_ready, problem

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

PAGE_HEADERS = {
    # No inline scripts or styles, nothing from elsewhere; audio is played from memory.
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; media-src 'self' blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Files are asked for again and answered 304: a new version of the server never runs with old scripts.
    "Cache-Control": "no-cache",
}


class Routes:
    """The handlers. All but `state` answer from memory.

    Args:
        info: the server.
    """

    def __init__(self, *, info: ServerInfo) -> None:
        self._info = info

    async def models(self, _request: Request) -> Response:
        """``GET /v1/models``"""
        return _json(ModelList(data=[Model(id=name) for name in self._info.served.models]))

    async def model(self, request: Request) -> Response:
        """``GET /v1/models/{model}``"""
        name = request.path_params["model"]
        if name in self._info.served.models:
            return _json(Model(id=name))
        served = ", ".join(self._info.served.models)
        return problem(
            404, f"There is no model {name[:60]!r}; there are: {served}.", code="model_not_found", param="model"
        )

    async def sessions(self, _request: Request) -> Response:
        """``GET /v1/sessions``: who is here, who waits, what each takes, and what is left. For operators."""
        return _json(self._info.census())

    async def state(self, _request: Request) -> Response:
        """``GET /v1/state``: whether what is held is what the books say. For operators."""
        return _json(await self._info.inspect())

    async def turn(self, request: Request) -> Response:
        """``GET /v1/turns/{response_id}``: where the time of one answer went."""
        response_id = request.path_params["response_id"]
        turn = self._info.turn(response_id)
        if turn is not None:
            return _json(turn)
        message = f"No turn is kept for the response {response_id[:60]!r}: it never was, or is too long ago."
        return problem(404, message, code="turn_not_found", param="response_id")

    async def health(self, _request: Request) -> Response:
        """``GET /healthz``: the process answers."""
        return _json({"status": "ok", "sessions": self._info.sessions})

    async def readiness(self, _request: Request) -> Response:
        """``GET /readyz``: sessions may be opened."""
        return _json({"status": "ready"}) if self._info.ready else not_ready()

    async def metrics(self, _request: Request) -> Response:
        """``GET /metrics``"""
        return Response(self._info.metrics(), headers={"Content-Type": METRICS_TYPE})


class Page(StaticFiles):
    """The browser's files. Paths that lead out of their directory, and links, are answered 404."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            refusal = problem(404, "Sessions are held at /v1/realtime.", code="not_found")
            await refusal(scope, receive, send)
            return
        await super().__call__(scope, receive, send)

    def file_response(
        self,
        full_path: PathLike[str] | str,
        stat_result: stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """As Starlette has it, with the headers that a browser needs to be strict."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(PAGE_HEADERS)
        return response


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
