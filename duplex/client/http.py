"""The few things that a client asks over HTTP."""

from __future__ import annotations

import asyncio
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlsplit

import msgspec

from duplex.client.turn import Json


async def fetch_turn(*, url: str, response_id: str, api_key: str | None = None, timeout_s: float = 5.0) -> Json:
    """GET /v1/turns/{response_id} from the server whose realtime address is `url`.

    Returns:
        what it says of the turn, as it came; empty where it says nothing that can be read: another server of the
        same protocol does not have this, and a conversation is none the worse.
    """
    return await asyncio.to_thread(_get, url, f"/v1/turns/{quote(response_id, safe='')}", api_key, timeout_s)


def _get(url: str, path: str, api_key: str | None, timeout_s: float) -> Json:
    try:
        status, body = get(url, path, api_key, timeout_s)
        return msgspec.json.decode(body, type=Json) if status == 200 else {}
    except (OSError, HTTPException, msgspec.DecodeError):
        return {}


def get(url: str, path: str, api_key: str | None, timeout_s: float) -> tuple[int, bytes]:
    """One request: the status and the body. Raises OSError, HTTPException where nothing answers."""
    parts = urlsplit(url)
    secure = parts.scheme in ("wss", "https")
    connection = (HTTPSConnection if secure else HTTPConnection)(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {api_key}"} if api_key else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
