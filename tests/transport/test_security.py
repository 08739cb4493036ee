"""Keys and origins."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from duplex.transport.security import Gate


def gate(key: str | None = None, *origins: str) -> Gate:
    return Gate(api_key=key, allowed_origins=origins)


@pytest.mark.parametrize(
    ("headers", "subprotocols", "known"),
    [
        ({"Authorization": "Bearer sesame"}, [], True),
        ({"Authorization": "bearer  sesame "}, [], True),
        ({}, ["realtime", "openai-insecure-api-key.sesame"], True),
        ({"Authorization": "Bearer wrong"}, ["openai-insecure-api-key.sesame"], True),
        ({}, [], False),
        ({"Authorization": "Bearer "}, [], False),
        ({"Authorization": "Bearer sesamee"}, [], False),
        ({"Authorization": "Basic sesame"}, [], False),
        ({"Authorization": "sesame"}, [], False),
        ({"Authorization": "Bearer sésame"}, [], False),
        ({}, ["sesame", "openai-insecure-api-key.", "openai-insecure-api-key.SESAME"], False),
    ],
)
def test_the_key_must_be_shown(headers: dict[str, str], subprotocols: list[str], known: bool) -> None:
    assert gate("sesame").knows(Headers(headers), subprotocols) is known
    assert gate(None).knows(Headers(headers), subprotocols)


@pytest.mark.parametrize(
    ("origin", "host", "admitted"),
    [
        (None, "talk.example.org", True),
        ("http://localhost:3000", "127.0.0.1:8000", True),
        ("http://app.localhost:3000", "127.0.0.1:8000", True),
        ("https://127.0.0.1", "127.0.0.1:8000", True),
        ("http://127.1.2.3:80", "127.0.0.1:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://192.168.1.5:8000", "192.168.1.5:8000", True),
        ("http://192.168.1.6:8000", "192.168.1.5:8000", False),
        ("http://192.168.1.5:9000", "192.168.1.5:8000", False),
        ("https://good.example", "127.0.0.1:8000", True),
        ("HTTPS://GOOD.example", "127.0.0.1:8000", True),
        ("http://good.example", "127.0.0.1:8000", False),
        ("https://good.example.evil.example", "127.0.0.1:8000", False),
        ("https://evil.example", "127.0.0.1:8000", False),
        ("http://localhost.evil.example", "127.0.0.1:8000", False),
        ("http://evil.example:8000", "evil.example:8000", False),  # a name made to resolve to this machine
        ("null", "127.0.0.1:8000", False),
        ("", "127.0.0.1:8000", False),
        ("file://", "127.0.0.1:8000", False),
        ("http://[::1", "127.0.0.1:8000", False),
        ("chrome-extension://localhost", "127.0.0.1:8000", False),
    ],
)
def test_which_pages_may_open_sessions(origin: str | None, host: str, admitted: bool) -> None:
    headers = Headers({"host": host} | ({"origin": origin} if origin is not None else {}))
    assert gate(None, "https://good.example").admits_origin(headers) is admitted
    assert gate(None, "*").admits_origin(headers)


def test_with_a_key_a_page_of_the_servers_own_name_may_open_sessions() -> None:
    headers = Headers({"origin": "https://talk.example.org", "host": "Talk.example.org"})
    assert gate("sesame").admits_origin(headers)
    assert not gate(None).admits_origin(headers)
