"""Errors over HTTP, in OpenAI's shape."""

from __future__ import annotations

import math
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from duplex.errors import AdmissionRefused

CODES = {400: "bad_request", 401: "invalid_api_key", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """One of `rate_limits`, as OpenAI's `rate_limits.updated` has them; `reset_seconds`: when to try again."""

    name: str
    limit: int
    remaining: int
    reset_seconds: float


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """`error` of an error's body."""

    message: str
    type: str
    code: str
    param: str | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of an error."""

    error: Problem
    rate_limits: list[RateLimit] = []


def problem(
    status: int,
    message: str,
    *,
    code: str,
    param: str | None = None,
    headers: dict[str, str] | None = None,
    rate_limits: list[RateLimit] | None = None,
) -> Response:
    """A response that says what is wrong, in one sentence with the remedy."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = Problem(message=message, type=kind, code=code, param=param)
    body = msgspec.json.encode(Body(error=error, rate_limits=rate_limits or []))
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def unauthorised() -> Response:
    """401: the key is missing or wrong; which of the two is not said."""
    return problem(
        401,
        "This server wants its API key: send it as the header Authorization: Bearer KEY.",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def busy(refused: AdmissionRefused) -> Response:
    """503: no place is free, nor one in the queue."""
    seconds = max(1, math.ceil(refused.retry_after_s))
    limits = []
    if refused.limit is not None:
        limits.append(RateLimit(name="sessions", limit=refused.limit, remaining=0, reset_seconds=float(seconds)))
    headers = {"Retry-After": str(seconds)}
    return problem(503, str(refused), code="server_full", headers=headers, rate_limits=limits)


def not_ready() -> Response:
    """503: the models are still being loaded."""
    return problem(503, "The server is still starting; try again soon.", code="not_ready", headers={"Retry-After": "2"})


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    message = f"{request.method} {request.url.path[:200]}: {phrase}."
    code = CODES.get(error.status_code, "error")
    return problem(error.status_code, message, code=code, headers=dict(error.headers or {}))


async def on_fault(_request: Request, _error: Exception) -> Response:
    """A fault of the server's own; what it was goes to the log, never to the client."""
    return problem(500, "Something failed inside the server; its log says what.", code="internal_error")
