"""A server of the protocol, small enough to be sure of: energy decides, a tone answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np
from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

from duplex.audio.pcm import from_bytes, level_dbfs

RATE_HZ = 24_000
PACKET = RATE_HZ // 20  # 50 ms


def tone(seconds: float, peak: int = 8000) -> np.ndarray:
    return (peak * np.sin(2 * np.pi * 440 * np.arange(int(RATE_HZ * seconds)) / RATE_HZ)).astype(np.int16)


@dataclass
class Script:
    """How the double behaves; `queue`: seconds between one position in the queue and the next, before the session."""

    silence_s: float = 0.2
    think_s: float = 0.05
    answer_s: float = 0.3
    leading_silence_s: float = 0.0
    stale_packets: int = 0
    answers: bool = True
    refuse: tuple[int, str] | None = None
    first_error: str | None = None
    queue: tuple[float, ...] = ()
    die_after_s: float | None = None
    api_key: str | None = None
    turns: dict[str, Any] = field(default_factory=dict)


class Double:
    """One server; counts what it was sent."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.received: list[dict[str, Any]] = []
        self.audio: list[np.ndarray] = []
        self.detection: dict[str, Any] | None = {"type": "server_vad", "interrupt_response": True}
        self.url = ""
        self._count = 0

    def gate(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.script.api_key and request.headers.get("Authorization") != f"Bearer {self.script.api_key}":
            return self._reply(401, {"error": {"message": "A key is needed."}})
        if request.path.startswith("/v1/turns/"):
            turn = self.script.turns.get("any")
            return self._reply(200, turn) if turn else self._reply(404, {"error": {"message": "no such turn"}})
        if self.script.refuse is not None:
            status, message = self.script.refuse
            return self._reply(status, {"error": {"message": message}}, retry_after="7")
        return None

    @staticmethod
    def _reply(status: int, body: dict[str, Any], retry_after: str = "") -> Response:
        data = json.dumps(body).encode()
        headers = Headers({"Content-Length": str(len(data)), "Content-Type": "application/json", "Connection": "close"})
        if retry_after:
            headers["Retry-After"] = retry_after
        return Response(status, HTTPStatus(status).phrase, headers, data)

    async def serve(self, socket: ServerConnection) -> None:
        async def say(kind: str, **rest: Any) -> None:
            await socket.send(json.dumps({"type": kind, "event_id": "e", **rest}))

        if self.script.first_error is not None:
            await say("error", error={"type": "server_error", "message": self.script.first_error})
            await socket.close()
            return
        for left, wait_s in enumerate(self.script.queue):
            position = len(self.script.queue) - left
            await say("duplex.queue.updated", position=position, eta_s=12.3 if position == 1 else None)
            await asyncio.sleep(wait_s)
        await say("session.created", session=self._session())
        answering: asyncio.Task[None] | None = None
        speaking, quiet_s, heard_s = False, 0.0, 0.0
        try:
            async with asyncio.TaskGroup() as tasks:
                async for message in socket:
                    event = json.loads(message)
                    self.received.append(event)
                    if event["type"] == "session.update":
                        told = event["session"].get("audio", {}).get("input", {})
                        self.detection = told.get("turn_detection", self.detection)
                        await say("session.updated", session=self._session())
                    elif event["type"] == "input_audio_buffer.commit":
                        await say("input_audio_buffer.committed", item_id="item_manual")
                    elif event["type"] == "response.cancel" and answering is not None and not answering.done():
                        answering.cancel()
                        await self._cut(say, "client_cancelled")
                    elif event["type"] == "response.create":
                        answering = tasks.create_task(self._answer(say, "item_manual"))
                    if event["type"] != "input_audio_buffer.append":
                        continue
                    samples = from_bytes(base64.b64decode(event["audio"]))
                    self.audio.append(samples)
                    heard_s += len(samples) / RATE_HZ
                    if self.script.die_after_s is not None and heard_s > self.script.die_after_s:
                        socket.transport.abort()
                        return
                    if self.detection is None:
                        continue
                    if level_dbfs(samples) > -45:
                        quiet_s = 0.0
                        if not speaking:
                            speaking = True
                            await say("input_audio_buffer.speech_started", item_id="item", audio_start_ms=0)
                            if answering is not None and not answering.done():
                                answering.cancel()
                                await self._cut(say)
                    elif speaking:
                        quiet_s += len(samples) / RATE_HZ
                        if quiet_s >= self.script.silence_s:
                            speaking = False
                            self._count += 1
                            item = f"item_{self._count}"
                            end_ms = round((heard_s - quiet_s) * 1000)
                            await say("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=end_ms)
                            await say("input_audio_buffer.committed", item_id=item, previous_item_id=None)
                            if self.script.answers:
                                answering = tasks.create_task(self._answer(say, item))
                if answering is not None:
                    answering.cancel()
        except* ConnectionClosed:
            pass

    def _session(self) -> dict[str, Any]:
        return {"type": "realtime", "audio": {"input": {"turn_detection": self.detection}}}

    @property
    def _response(self) -> str:
        return f"resp_{self._count}"

    async def _answer(self, say: Any, item: str) -> None:
        response = self._response
        await asyncio.sleep(self.script.think_s)
        transcribed = "conversation.item.input_audio_transcription.completed"
        await say("response.created", response={"id": response, "status": "in_progress"})
        await say(transcribed, item_id=item, content_index=0, transcript=f"words of {item}")
        await say(
            "response.output_audio_transcript.delta", response_id=response, item_id=f"a_{response}", delta="Beep."
        )
        silence = np.zeros(int(self.script.leading_silence_s * RATE_HZ), np.int16)
        audio = np.concatenate([silence, tone(self.script.answer_s)])
        for start in range(0, len(audio), PACKET):
            await self._packet(say, response, audio[start : start + PACKET])
            await asyncio.sleep(PACKET / RATE_HZ)
        await say("response.output_audio_transcript.done", response_id=response, transcript="Beep.")
        await say("response.done", response={"id": response, "status": "completed"})

    async def _cut(self, say: Any, reason: str = "turn_detected") -> None:
        response = self._response
        for _ in range(self.script.stale_packets):
            await self._packet(say, response, tone(PACKET / RATE_HZ))
        details = {"type": "cancelled", "reason": reason}
        await say("response.done", response={"id": response, "status": "cancelled", "status_details": details})

    @staticmethod
    async def _packet(say: Any, response: str, samples: np.ndarray) -> None:
        delta = base64.b64encode(samples.astype("<i2").tobytes()).decode()
        await say("response.output_audio.delta", response_id=response, item_id=f"a_{response}", delta=delta)


@asynccontextmanager
async def running(script: Script) -> AsyncIterator[Double]:
    double = Double(script)
    async with serve(double.serve, "127.0.0.1", 0, process_request=double.gate, close_timeout=0.2) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        double.url = f"ws://127.0.0.1:{port}/v1/realtime"
        yield double
