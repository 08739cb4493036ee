"""A server for the page's tests: serves web/ under the real policy, and says on the wire what a test tells it to.

It decides nothing: a test posts `/_stub/mode` (how the next connections go) and `/_stub/emit` (messages to send now,
which it numbers), and reads `/_stub/received` (what the page has sent). A message
`{"tone": HZ, "seconds": S, "epoch": N}` becomes media frames of 100 ms. What takes a server that decides is tested
against one, `kernel_server.py`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field, replace
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

from duplex.protocol.native.media import SPEECH, Frame, pack, unpack

HERE = Path(__file__).parent
WEB = HERE.parent.parent / "web"
RATE_HZ = 24_000
POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
FULL = "All 4 places are taken; try again in 30 seconds."
TERMS = {
    "input_hz": RATE_HZ,
    "output_hz": RATE_HZ,
    "playback": "acknowledged",
    "ahead_ms": 500,
    "max_message_bytes": 1 << 20,
    "grace_s": 30.0,
    "heartbeat_s": 5.0,
}
UNNUMBERED = ("queued", "resumed", "heartbeat")
Message = dict[str, Any]


@dataclass(kw_only=True)
class Stub:
    """What the page has sent, and how it is to be met.

    Attributes:
        meet: ``welcome``, ``wait`` (no `opened` until a test emits it), ``full`` (an error, then a close),
            ``forgetful`` (as welcome, but nothing can be resumed); or a handshake that fails: ``reject`` (HTTP says
            that it is full), ``key`` (HTTP says 401), ``loading`` (HTTP says 503), ``mute`` (HTTP does not say why).
        turns: what `GET /v1/turns/{id}` answers.
    """

    meet: str = "welcome"
    turns: dict[str, Any] = field(default_factory=dict)
    events: list[Message] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    rms: list[float] = field(default_factory=list)
    protocols: list[list[str]] = field(default_factory=list)
    sockets: list[WebSocket] = field(default_factory=list)
    sequence: int = 0
    taken: int = 0

    async def converse(self, socket: WebSocket) -> None:
        self.protocols.append(list(socket.scope["subprotocols"]))
        if self.meet in ("reject", "key", "loading", "mute"):
            await socket.close()
            return
        await socket.accept(subprotocol="duplex.v1")
        first = await socket.receive_json()
        self.events.append(first)
        if self.meet == "full":
            await self._turn_away(socket, "server_full", FULL, 1013)
            return
        if first["type"] == "resume" and self.meet == "forgetful":
            await self._turn_away(socket, "session_closed", "There is no such session.", 1008)
            return
        self.sockets.append(socket)
        if first["type"] == "resume":
            terms = {"version": 1, "session_id": "sess_1", "generation": 1, "terms": TERMS, "input_samples": 0}
            await self._say(socket, {"type": "resumed", **terms, "token": "t2", "taken": self.taken, "resync": False})
        elif self.meet in ("welcome", "forgetful"):
            self.sequence = 0
            await self._say(socket, OPENED)
        try:
            while True:
                self._take(await socket.receive())
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)

    async def _turn_away(self, socket: WebSocket, code: str, message: str, close: int) -> None:
        await socket.send_json({"type": "error", "code": code, "message": message, "sequence": 0})
        await socket.close(close)

    async def _say(self, socket: WebSocket, message: Message) -> None:
        for one in tone(message) if "tone" in message else [message]:
            if not isinstance(one, Frame) and one["type"] in UNNUMBERED:
                await socket.send_json(one)
                continue
            self.sequence += 1
            if isinstance(one, Frame):
                await socket.send_bytes(pack(replace(one, sequence=self.sequence)))
            else:
                await socket.send_json({**one, "sequence": self.sequence})

    def _take(self, received: Message) -> None:
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        if received.get("text") is not None:
            event = json.loads(received["text"])
            self.taken = max(self.taken, event.get("sequence", 0) if event["type"] != "ack" else 0)
            self.events.append(event)
            return
        frame = unpack(received["bytes"])
        self.taken = max(self.taken, frame.sequence)
        pcm = np.frombuffer(frame.payload, dtype="<i2")
        self.frames.append(len(pcm))
        self.rms.append(float(np.sqrt(np.mean((pcm / 32768.0) ** 2))))

    async def mode(self, request: Request) -> Response:
        for name, value in (await request.json()).items():
            setattr(self, name, value)
        return JSONResponse({})

    async def emit(self, request: Request) -> Response:
        for message in await request.json():
            await self._say(self.sockets[-1], message)
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
        """`GET /v1/duplex` without an upgrade."""
        answers = {"reject": (503, "server_full", FULL), "key": (401, "invalid_api_key", "This server wants a key.")}
        status, code, message = answers.get(self.meet, (426, "upgrade_required", "Sessions are held over a WebSocket."))
        return JSONResponse({"error": error(code, message)}, status_code=status)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "sessions": 0})

    async def ready(self, request: Request) -> Response:
        return JSONResponse({}, status_code=503 if self.meet == "loading" else 200)


def error(code: str, message: str) -> dict[str, str]:
    return {"type": "server_error", "code": code, "message": message}


def tone(message: Message) -> list[Frame]:
    """Frames of a sine, whole periods each, so that a gap or a lost sample between two can be seen."""
    wave = 0.3 * np.sin(2 * np.pi * message["tone"] * np.arange(round(message["seconds"] * RATE_HZ)) / RATE_HZ)
    pcm = (wave * 32767).astype("<i2")
    return [
        Frame(kind=SPEECH, epoch=message["epoch"], timestamp=at, payload=pcm[at : at + 2400].tobytes())
        for at in range(0, len(pcm), 2400)
    ]


OPENED = {
    "type": "opened",
    "version": 1,
    "session_id": "sess_1",
    "conversation_id": "conv_1",
    "generation": 0,
    "token": "t1",
    "terms": TERMS,
    "settings": {},
}


class PolicyMiddleware(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-store"
        return response


def build(stub: Stub) -> Starlette:
    routes = [
        WebSocketRoute("/v1/duplex", stub.converse),
        Route("/v1/turns/{response_id}", stub.turn),
        Route("/v1/duplex", stub.plain),
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
