"""Who may use the server: API keys, and which web pages may open sessions.

Two dangers are met here. A page from anywhere may open a WebSocket to a server on its visitor's own machine, because
browsers do not hold WebSockets to the same-origin policy (RFC 6455, section 10.2): so the origin is checked. And a
hostile page may make its own name resolve to that machine, and then *be* of the same origin (DNS rebinding): so, where
no API key stands in the way, "same origin" counts only for hosts that cannot be rebound.
"""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response

from duplex.transport.problem import problem, unauthorised

KEY_SUBPROTOCOL = "openai-insecure-api-key."
"""A browser cannot set headers on a WebSocket: OpenAI's browser clients put the key behind this, as a subprotocol."""


class Gate:
    """Judges requests by their headers; keeps no state.

    Args:
        api_key: what each client must show; None for nothing.
        allowed_origins: web origins besides the server's own, as ``https://example.org``; ``*`` for all.
    """

    def __init__(self, *, api_key: str | None, allowed_origins: tuple[str, ...]) -> None:
        self._api_key = api_key
        self._allowed = frozenset(origin.lower() for origin in allowed_origins)

    def knows(self, headers: Headers, subprotocols: list[str] | None = None) -> bool:
        """Whether the client shows the key, as a bearer token or as a subprotocol. Compares in constant time."""
        if self._api_key is None:
            return True
        shown = [name.removeprefix(KEY_SUBPROTOCOL) for name in subprotocols or () if name.startswith(KEY_SUBPROTOCOL)]
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            shown.append(token.strip())
        wanted = self._api_key.encode()
        return any([hmac.compare_digest(key.encode(), wanted) for key in shown])

    def refusal(self, asking: HTTPConnection) -> Response | None:
        """What to answer to a handshake that is not to be let in; None where it is."""
        if not self.admits_origin(asking.headers):
            message = "Pages of this origin may not open sessions; name it in http.allowed_origins to let them."
            return problem(403, message, code="origin_not_allowed")
        return None if self.knows(asking.headers, asking.scope.get("subprotocols")) else unauthorised()

    def admits_origin(self, headers: Headers) -> bool:
        """Whether the page that asks, if it is a page, may open sessions. Programs send no Origin and are let in."""
        origin = headers.get("origin")
        if origin is None or "*" in self._allowed or origin.lower() in self._allowed:
            return True
        try:
            asking = urlsplit(origin.lower())
            serving = urlsplit("//" + headers.get("host", "").lower())
            hostname = asking.hostname
        except ValueError:
            return False
        if asking.scheme not in ("http", "https") or not hostname:
            return False
        if _is_loopback(hostname):
            return True
        same = asking.netloc == serving.netloc
        return same and (self._api_key is not None or _is_address(hostname))


def _is_loopback(hostname: str) -> bool:
    if hostname == "localhost" or hostname.endswith(".localhost"):
        return True
    return _is_address(hostname) and ipaddress.ip_address(hostname).is_loopback


def _is_address(hostname: str) -> bool:
    try:
        ipaddress.ip_address(hostname)
    except ValueError:
        return False
    return True
