"""A thin client of the OpenAI Realtime protocol over a WebSocket."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from duplex.audio.pcm import Samples, to_bytes
from duplex.client.events import Event, decode
from duplex.client.socket import open_socket
from duplex.errors import TalkError

PATH = "/v1/realtime"
MODEL = "duplex"


def realtime_url(url: str) -> str:
    """Complete an address: http becomes ws, an absent path or model gets its default.

    Raises:
        TalkError: not an address of a server.
    """
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.netloc:
        raise TalkError(f"{url} is not the address of a server; give one like ws://127.0.0.1:8000{PATH}")
    query = parse_qsl(parts.query)
    if "model" not in dict(query):
        query.append(("model", MODEL))
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or PATH, urlencode(query), ""))


class Realtime:
    """One open connection; made by `Realtime.open`. Not for use from several tasks, except that one may receive
    while another sends.

    Args:
        socket: what carries the messages.
        url: for the sentences of errors.
    """

    def __init__(self, *, socket: ClientConnection, url: str) -> None:
        self._socket = socket
        self.url = url

    @classmethod
    async def open(cls, *, url: str, api_key: str | None = None, timeout_s: float = 10.0) -> Realtime:
        """Connect, straight and without a proxy.

        Raises:
            TalkError: no server, a refusal, or no answer within `timeout_s`; one sentence with the remedy.
        """
        url = realtime_url(url)
        socket = await open_socket(url=url, api_key=api_key, timeout_s=timeout_s)
        return cls(socket=socket, url=url)

    async def send(self, event: Mapping[str, Any]) -> None:
        """Send one client event; returns when the socket has taken it.

        Raises:
            TalkError: the connection is gone.
        """
        try:
            await self._socket.send(msgspec.json.encode(event), text=True)
        except ConnectionClosed as error:
            raise self._lost(error) from None

    async def append(self, samples: Samples) -> None:
        """Send int16 [n] of the microphone. Raises TalkError where the connection is gone."""
        audio = base64.b64encode(to_bytes(samples)).decode("ascii")
        await self.send({"type": "input_audio_buffer.append", "audio": audio})

    async def events(self) -> AsyncIterator[tuple[Event, float]]:
        """Every event with the loop's time of its arrival in seconds; never ends by itself.

        Raises:
            TalkError: the connection is gone, or what arrives is not of this protocol.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosed as error:
                raise self._lost(error) from None
            now = loop.time()
            yield decode(message), now

    async def raw(self) -> AsyncIterator[dict[str, Any]]:
        """Every event as the JSON that it came as, but audio as bytes; in place of `events`.

        Raises:
            TalkError: the connection is gone.
        """
        while True:
            try:
                event: dict[str, Any] = msgspec.json.decode(await self._socket.recv())
            except ConnectionClosed as error:
                raise self._lost(error) from None
            if event.get("type") == "response.output_audio.delta":
                event["delta"] = base64.b64decode(event["delta"])
            yield event

    async def close(self) -> None:
        """Say goodbye; waits 2 s at most."""
        await self._socket.close()

    def _lost(self, error: ConnectionClosed) -> TalkError:
        why = f"{error.rcvd.code} {error.rcvd.reason}".rstrip() if error.rcvd else "without a word"
        return TalkError(f"the server at {self.url} broke off the conversation ({why}); see its log, then try again")
