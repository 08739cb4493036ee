"""The native protocol by hand: each message as it travels."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec

from duplex.errors import TalkError
from duplex.protocol.native import PATH, VERSION, client, server
from duplex.protocol.native.media import Frame, FrameError, unpack
from latency_bench.wire.link import Link

Message = server.AnyServerMessage | Frame

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(server.AnyServerMessage).decode


def native_url(url: str) -> str:
    """The native endpoint of the server whose realtime endpoint is `url`."""
    return urlsplit(url)._replace(path=PATH, query="").geturl()


def number_of(message: Message) -> int:
    """The message's number in the session's row; 0 where it is about the connection."""
    if isinstance(message, server.Queued | server.Resumed | server.Heartbeat):
        return 0
    return message.sequence


class Native:
    """One connection, of a session or of one that wants to be. Raises LinkLost where it is over.

    Args:
        link: that carries it.
    """

    def __init__(self, link: Link) -> None:
        self.link = link

    @classmethod
    async def connect(cls, url: str, *, receive_buffer_bytes: int | None = None) -> Native:
        """Connected and upgraded; nothing is asked for yet. Raises TalkError where that fails."""
        return cls(await Link.open(native_url(url), receive_buffer_bytes=receive_buffer_bytes))

    async def say(self, message: client.AnyClientMessage) -> None:
        await self.link.send(_encode(message).decode())

    async def hear(self) -> Message:
        """The next message. Raises TalkError for one that is not of the protocol."""
        received = await self.link.receive()
        try:
            return unpack(received) if isinstance(received, bytes) else _decode(received)
        except (FrameError, msgspec.DecodeError) as error:
            raise TalkError(f"the server sent what is not of its protocol ({error}); report it as a bug") from None

    async def open(self, *, timeout_s: float = 90.0, resumable: bool = True) -> server.Opened:
        """Ask for a session, and wait in the queue if need be. Raises TalkError where there is none."""
        await self.say(client.Open(version=VERSION, resumable=resumable))
        async with asyncio.timeout(timeout_s):
            while isinstance(message := await self.hear(), server.Queued):
                pass
        if not isinstance(message, server.Opened):
            raise TalkError(f"the server opened no session: {message}")
        return message

    async def resume(self, opened: server.Opened | server.Resumed, *, token: str, seen: int) -> None:
        """Ask to go on with a session."""
        await self.say(client.Resume(version=VERSION, session_id=opened.session_id, token=token, seen=seen))

    async def end(self, *, timeout_s: float = 5.0) -> None:
        """Close the session, read up to its last word, and say goodbye."""
        await self.say(client.Close())
        async with asyncio.timeout(timeout_s):
            while not isinstance(await self.hear(), server.Closed):
                pass
        await self.link.close()
