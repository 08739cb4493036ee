"""What a client says: numbered, kept until the server has taken it, and said again on another connection."""

from __future__ import annotations

import asyncio

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from duplex.audio.pcm import Samples, to_bytes
from duplex.client.backlog import Backlog, Sent
from duplex.protocol.native import client
from duplex.protocol.native.media import MICROPHONE, Frame, pack

BACKLOG_BYTES = 4 << 20
"""What is held for a server that is away: 80 s of a microphone at 24 kHz."""

_encoder = msgspec.json.Encoder()


class Outbound:
    """Sends on the connection that there is; without one, what counts waits for the next."""

    def __init__(self) -> None:
        self._socket: ClientConnection | None = None
        self._sending = asyncio.Lock()
        self._backlog = Backlog(max_bytes=BACKLOG_BYTES)
        self._position = 0
        self._progress: client.Played | None = None

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def begin(self, socket: ClientConnection) -> None:
        """The first connection."""
        self._socket = socket

    def lose(self) -> None:
        """There is no connection any more."""
        self._socket = None

    def confirm(self, taken: int) -> None:
        """The server has taken everything up to this number."""
        self._backlog.confirm(taken)

    async def command(self, message: client.Update | client.Signal | client.Close) -> None:
        """Something that must not be lost."""
        number = self._backlog.number()
        numbered = msgspec.structs.replace(message, sequence=number)
        await self._keep_and_send(Sent(sequence=number, message=_encoder.encode(numbered).decode(), audio=False))

    async def audio(self, samples: Samples) -> None:
        """The microphone goes on, int16 [n], at most 1 s."""
        number = self._backlog.number()
        frame = Frame(kind=MICROPHONE, sequence=number, timestamp=self._position, payload=to_bytes(samples))
        self._position += len(samples)
        await self._keep_and_send(Sent(sequence=number, message=pack(frame), audio=True))

    async def played(self, progress: client.Played) -> None:
        """How far the listener is; only the newest word of it counts."""
        self._progress = progress
        await self.say(progress)

    async def say(self, message: client.Ack | client.Played | client.Heartbeat) -> None:
        """Something that is out of date on another connection."""
        await self._put(_encoder.encode(message).decode())

    async def resume(self, socket: ClientConnection, *, seen: int, taken: int) -> bool:
        """Another connection: say what the server has missed. False where it broke off as well."""
        self._backlog.confirm(taken)
        async with self._sending:  # Nothing new may overtake what is sent again.
            try:
                await socket.send(_encoder.encode(client.Ack(sequence=seen)).decode())
                for sent in self._backlog.unconfirmed():
                    await socket.send(sent.message)
                if self._progress is not None:
                    await socket.send(_encoder.encode(self._progress).decode())
            except ConnectionClosed:
                return False
            self._socket = socket
        return True

    async def _keep_and_send(self, sent: Sent) -> None:
        self._backlog.keep(sent)
        await self._put(sent.message)

    async def _put(self, message: str | bytes) -> None:
        async with self._sending:
            if self._socket is not None:
                try:
                    await self._socket.send(message)
                except ConnectionClosed:
                    self._socket = None  # Its reader notices too, and connects again.
