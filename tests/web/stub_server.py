"""A server for the page's tests: serves web/ under the real policy, and says on the wire what a test tells it to.

It decides nothing: a test posts `/_stub/mode` (how the next connections go) and `/_stub/emit` (events to send now),
and reads `/_stub/received` (what the page has sent). An event `{"tone": HZ, "seconds": S, …}` becomes audio deltas of
100 ms.
"""

from __future__ import annotations

import argparse
import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

HERE = Path(__file__).parent
WEB = HERE.parent.parent / "web"
RATE_HZ = 24_000
POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
FULL = "All 4 places are taken; try again in 30 seconds."
SESSION = {
    "type": "realtime",
    "audio": {"input": {"transcription": {"language": "en"}, "turn_detection": {"type": "server_vad"}}},
}


@dataclass(kw_only=True)
class Stub:
    """What the page has sent, and how it is to be met.

    Attributes:
        meet: ``welcome``, ``wait`` (no session.created until a test emits it), ``full`` (an error event, then a
            close); or a handshake that fails: ``reject`` (HTTP says that it is full), ``key`` (HTTP says 401),
            ``loading`` (HTTP says 503), ``mute`` (HTTP does not say why).
        turns: what `GET /v1/turns/{id}` answers.
    """

    meet: str = "welcome"
    turns: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    rms: list[float] = field(default_factory=list)
    protocols: list[list[str]] = field(default_factory=list)
    sockets: list[WebSocket] = field(default_factory=list)

    async def converse(self, socket: WebSocket) -> None:
        self.protocols.append(list(socket.scope["subprotocols"]))
        if self.meet in ("reject", "key", "loading", "mute"):
            await socket.close()
            return
        await socket.accept(subprotocol="realtime")
        if self.meet == "full":
            await socket.send_json({"type": "error", "error": error("server_full", FULL)})
            await socket.close(1013)
            return
        if self.meet == "welcome":
            await socket.send_json({"type": "session.created", "event_id": "event_0", "session": SESSION})
        self.sockets.append(socket)
        try:
            while True:
                self._take(await socket.receive_json())
        except WebSocketDisconnect:
            pass
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] != "input_audio_buffer.append":
            self.events.append(event)
            return
        pcm = np.frombuffer(base64.b64decode(event["audio"], validate=True), dtype="<i2")
        self.frames.append(len(pcm))
        self.rms.append(float(np.sqrt(np.mean((pcm / 32768.0) ** 2))))

    async def mode(self, request: Request) -> Response:
        for name, value in (await request.json()).items():
            setattr(self, name, value)
        return JSONResponse({})

    async def emit(self, request: Request) -> Response:
        socket = self.sockets[-1]
        for event in await request.json():
            for message in tone(event) if "tone" in event else [event]:
                await socket.send_json(message)
        return JSONResponse({})

    async def received(self, request: Request) -> Response:
        answer = {
            "events": self.events,
            "frames": self.frames,
            "rms": self.rms,
            "protocols": self.protocols,
            "open": len(self.sockets),
        }
        return JSONResponse(answer)

    async def reset(self, request: Request) -> Response:
        self.meet, self.turns = "welcome", {}
        for kept in (self.events, self.frames, self.rms, self.protocols):
            kept.clear()
        return JSONResponse({})

    async def drop(self, request: Request) -> Response:
        for socket in list(self.sockets):
            await socket.close(1012)
        return JSONResponse({})

    async def turn(self, request: Request) -> Response:
        found = self.turns.get(request.path_params["response_id"])
        return JSONResponse(found or {"error": {"message": "No such turn."}}, status_code=200 if found else 404)

    async def plain(self, request: Request) -> Response:
        """`GET /v1/realtime` without an upgrade."""
        answers = {"reject": (503, "server_full", FULL), "key": (401, "invalid_api_key", "This server wants a key.")}
        status, code, message = answers.get(self.meet, (426, "upgrade_required", "Sessions are held over a WebSocket."))
        return JSONResponse({"error": error(code, message)}, status_code=status)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "sessions": 0})

    async def ready(self, request: Request) -> Response:
        return JSONResponse({}, status_code=503 if self.meet == "loading" else 200)


def error(code: str, message: str) -> dict[str, str]:
    return {"type": "server_error", "code": code, "message": message}


def tone(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Audio deltas of a sine, whole periods a delta, so that a gap or a lost sample between two can be seen."""
    wave = 0.3 * np.sin(2 * np.pi * event["tone"] * np.arange(round(event["seconds"] * RATE_HZ)) / RATE_HZ)
    pcm = (wave * 32767).astype("<i2")
    rest = {key: value for key, value in event.items() if key not in ("tone", "seconds")}
    return [
        {
            "type": "response.output_audio.delta",
            "content_index": 0,
            **rest,
            "delta": base64.b64encode(pcm[at : at + 2400].tobytes()).decode(),
        }
        for at in range(0, len(pcm), 2400)
    ]


class PolicyMiddleware(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-store"
        return response


def build(stub: Stub) -> Starlette:
    routes = [
        WebSocketRoute("/v1/realtime", stub.converse),
        Route("/v1/turns/{response_id}", stub.turn),
        Route("/v1/realtime", stub.plain),
        Route("/healthz", stub.health),
        Route("/readyz", stub.ready),
        Route("/_stub/mode", stub.mode, methods=["POST"]),
        Route("/_stub/emit", stub.emit, methods=["POST"]),
        Route("/_stub/reset", stub.reset, methods=["POST"]),
        Route("/_stub/drop", stub.drop, methods=["POST"]),
        Route("/_stub/received", stub.received),
        Mount("/_stub", StaticFiles(directory=HERE / "browser")),
        Mount("/", StaticFiles(directory=WEB, html=True)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(PolicyMiddleware)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    uvicorn.run(build(Stub()), host="127.0.0.1", port=port, ws="websockets-sansio", log_level="warning")


if __name__ == "__main__":
    main()
