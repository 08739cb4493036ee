"""The HTTP routes, through the whole application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from duplex.errors import ConfigError
from tests.transport.fakes import Host, Info, Settings, app

pytestmark = pytest.mark.anyio


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """Browser's files, and one beside them that must stay private."""
    directory = tmp_path / "web"
    (directory / "worklets").mkdir(parents=True)
    (directory / "index.html").write_text("<!doctype html><title>page</title>")
    (directory / "worklets" / "in.js").write_text("export {};")
    (directory / "page.css").write_text("body {}")
    (tmp_path / "secret.txt").write_text("secret")
    (directory / "link.txt").symlink_to(tmp_path / "secret.txt")
    return directory


async def get(
    path: str, web: Path, *, info: Info | None = None, host: Host | None = None, method: str = "GET", **headers: str
) -> httpx.Response:
    settings = Settings(api_key="sesame") if headers.pop("guarded", None) else Settings()
    transport = httpx.ASGITransport(app(host=host, info=info, settings=settings, web=web), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        return await client.request(method, path, headers=headers)


def refusal(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert response.headers["content-type"] == "application/json"
    return error


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/index.html", "text/html"),
        ("/page.css", "text/css"),
        ("/worklets/in.js", "javascript"),
    ],
)
async def test_the_page_is_served_under_a_strict_policy(path: str, kind: str, web: Path) -> None:
    response = await get(path, web)
    assert response.status_code == 200
    assert kind in response.headers["content-type"]
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; connect-src 'self' ws: wss:;")
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    again = await get(path, web, **{"if-none-match": response.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/worklets",
        "/link.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/worklets/..%2f..%2fsecret.txt",
        "//etc/passwd",
        "/page.css%00",
    ],
)
async def test_nothing_else_is_served(path: str, web: Path) -> None:
    response = await get(path, web)
    assert response.status_code in (404, 405)
    assert "secret" not in response.text.replace("secret.txt", "")
    assert refusal(response)["code"] == "not_found"


async def test_a_wrong_method_is_refused_in_json(web: Path) -> None:
    for path in ("/", "/v1/models", "/healthz"):
        response = await get(path, web, method="POST")
        assert response.status_code == 405
        assert refusal(response)["code"] == "method_not_allowed"


async def test_models_are_listed_as_a_stock_client_reads_them(web: Path) -> None:
    transport = httpx.ASGITransport(app(settings=Settings(api_key="sesame"), web=web))
    async with httpx.AsyncClient(transport=transport) as http:
        client = AsyncOpenAI(base_url="http://127.0.0.1/v1", api_key="sesame", http_client=http)
        assert [model.id async for model in client.models.list()] == ["duplex"]
        assert (await client.models.retrieve("duplex")).owned_by == "duplex"
    assert refusal(await get("/v1/models/gpt-9", web))["code"] == "model_not_found"


async def test_turns(web: Path) -> None:
    info = Info(turns={"resp_1": {"response_id": "resp_1", "marks": []}})
    assert (await get("/v1/turns/resp_1", web, info=info)).json() == {"response_id": "resp_1", "marks": []}
    missing = await get("/v1/turns/resp_2", web, info=info)
    assert missing.status_code == 404
    assert "resp_2" in refusal(missing)["message"]


async def test_sessions(web: Path) -> None:
    assert (await get("/v1/sessions", web)).json() == {"object": "list", "data": []}


async def test_what_is_held_can_be_proven(web: Path) -> None:
    assert (await get("/v1/state", web)).json() == {"object": "state", "proven": True, "findings": []}


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/sessions", "/v1/state", "/v1/turns/resp_1", "/v1/realtime", "/v1/nothing"]
)
async def test_the_key_is_asked_for_below_v1(path: str, web: Path) -> None:
    bare = await get(path, web, guarded="yes")
    wrong = await get(path, web, guarded="yes", authorization="Bearer sesam")
    for response in (bare, wrong):
        assert response.status_code == 401
        assert refusal(response)["code"] == "invalid_api_key"
        assert "sesam" not in response.text
    assert (await get(path, web, guarded="yes", authorization="Bearer sesame")).status_code != 401


async def test_health_readiness_and_metrics_need_no_key(web: Path) -> None:
    starting = Info(ready=False, sessions=2)
    assert (await get("/healthz", web, info=starting, guarded="yes")).json() == {"status": "ok", "sessions": 2}
    not_yet = await get("/readyz", web, info=starting, guarded="yes")
    assert (not_yet.status_code, not_yet.headers["retry-after"]) == (503, "2")
    assert (await get("/readyz", web, guarded="yes")).status_code == 200
    metrics = await get("/metrics", web, guarded="yes")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "duplex_sessions 0" in metrics.text


async def test_a_session_without_an_upgrade_is_told_so(web: Path) -> None:
    response = await get("/v1/realtime", web)
    assert response.status_code == 426
    assert response.headers["upgrade"] == "websocket"


async def test_a_page_can_read_why_its_handshake_was_refused(web: Path) -> None:
    foreign = await get("/v1/realtime", web, origin="https://evil.example")
    assert refusal(foreign)["code"] == "origin_not_allowed"
    assert refusal(await get("/v1/realtime?model=gpt-9", web))["code"] == "model_not_found"
    assert refusal(await get("/v1/realtime", web, info=Info(ready=False)))["code"] == "not_ready"
    full = await get("/v1/realtime", web, host=Host(places=0))
    assert (full.status_code, full.headers["retry-after"]) == (503, "7")
    assert refusal(full)["code"] == "server_full"


async def test_a_fault_says_nothing_of_itself(web: Path) -> None:
    class Broken(Info):
        def turn(self, response_id: str) -> object | None:
            raise ValueError("private")

    response = await get("/v1/turns/x", web, info=Broken())
    assert response.status_code == 500
    assert "private" not in response.text
    assert refusal(response)["code"] == "internal_error"


async def test_a_missing_page_is_said_when_the_server_is_built(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"http\.web_dir"):
        app(web=tmp_path / "none")
