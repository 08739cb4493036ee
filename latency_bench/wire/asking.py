"""What a server says of itself, asked as an operator would: its metrics, and who is in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import msgspec

from duplex.errors import TalkError

TIMEOUT_S = 30.0

Json = dict[str, Any]

_LINE = re.compile(r"^(\w+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)
_EVENT = "duplex_events_total"


async def metrics(url: str) -> dict[str, float]:
    """Value by name and labels, as ``duplex_stage_requests{stage="hear"}``.

    Args:
        url: of the server's realtime endpoint.

    Raises:
        TalkError: the server does not answer.
    """
    page = await asyncio.to_thread(_get, url, "/metrics")
    return {name: float(value) for name, value in _LINE.findall(page.decode())}


def events(read: Mapping[str, float]) -> dict[str, float]:
    """How often each kind of thing has happened, out of `metrics`."""
    kinds = {name: re.fullmatch(_EVENT + r'\{kind="(\w+)"\}', name) for name in read}
    return {kind[1]: read[name] for name, kind in kinds.items() if kind is not None}


async def census(url: str) -> Json:
    """``GET /v1/sessions``. Raises TalkError where the server does not answer."""
    answer: Json = msgspec.json.decode(await asyncio.to_thread(_get, url, "/v1/sessions"))
    return answer


async def used_s(url: str, session_id: str) -> dict[str, float]:
    """Seconds that each engine has worked for a session that is open; empty where there is none of this id."""
    sessions = (await census(url))["data"]
    return next((dict(entry["used_s"]) for entry in sessions if entry["id"] == session_id), {})


async def findings(url: str) -> list[str]:
    """Where the server's books of state and what it really holds differ, from ``GET /v1/state``. Raises TalkError
    where the server does not answer."""
    state = msgspec.json.decode(await asyncio.to_thread(_get, url, "/v1/state"))
    return [str(finding) for finding in state["findings"]]


def _get(url: str, path: str) -> bytes:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise TalkError(f"the server at {url} does not answer {path} ({error}); see its log") from None
    finally:
        connection.close()
    if response.status != 200:
        raise TalkError(f"the server at {url} answers {path} with {response.status}; is it of this version?")
    return body
