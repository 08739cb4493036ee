"""A client of the native protocol that does as it is told, and comes back."""

from __future__ import annotations

import asyncio
from typing import Literal

from duplex.audio.pcm import Samples, to_bytes
from duplex.errors import TalkError
from duplex.protocol.native import VERSION, client, server
from duplex.protocol.native.item import NewItem
from duplex.protocol.native.media import MICROPHONE, Frame, pack
from duplex.protocol.native.settings import DetectionPatch, SettingsPatch
from latency_bench.wire.chaos.ear import KEPT, NativeEar
from latency_bench.wire.link import Link, LinkLost
from latency_bench.wire.native import Message, Native

NONSENSE: tuple[tuple[str | bytes, int | None], ...] = (
    ("{", None),
    ("7", None),
    ("[" * 50_000, None),
    ('{"type":"explode"}', None),
    ('{"type":"signal"}', None),
    ('{"type":"signal","signal":{"kind":"delete","item_id":"gone"}}', None),
    ('{"type":"update","settings":{"speed":99}}', None),
    ('{"type":"open","version":1}', None),
    (b"\x01", None),
    (b"\x07" + bytes(23), None),
    (b"\x02" + bytes(25 + 22), None),
    ('{"type":"ack","sequence":9007199254740000}', None),
    ("x" * 300_000, 1009),
)
"""What cannot be taken, and the code of the close that answers it; None where an error does, and all goes on."""

ACK_EVERY = 12
HEARTBEAT_S = 4.0

Attempt = Literal["forged token", "old token", "future number"]
REFUSALS: dict[Attempt, str] = {
    "forged token": "resume_token_invalid",
    "old token": "resume_token_invalid",
    "future number": "sequence_unknown",
}


class NativeVoice:
    """One session, over all of its connections.

    Args:
        ear: told of each message.

    Attributes:
        link: the newest connection.
        begun: whether there is a session. `queued`: the newest position in the queue.
    """

    def __init__(self, *, ear: NativeEar) -> None:
        self.ear = ear
        self.link: Link
        self.begun = False
        self.queued: int | None = None
        self._url = ""
        self._native: Native
        self._session_id = ""
        self._tokens: list[str] = []
        self._proven = False  # the server has taken the acknowledgement of the newest token
        self._number = 0
        self._acked = 0
        self._position = 0
        self._beat_s = 0.0

    async def connect(self, url: str, *, receive_buffer_bytes: int | None) -> None:
        """See `Link.open`."""
        self._url = url
        self._take_over(await Native.connect(url, receive_buffer_bytes=receive_buffer_bytes))
        await self._native.say(client.Open(version=VERSION))

    def _take_over(self, native: Native) -> None:
        self._native, self.link = native, native.link
        self._beat_s = asyncio.get_running_loop().time()

    async def hear(self) -> None:
        """Take one message. Raises LinkLost."""
        message = await self._native.hear()
        match message:
            case server.Queued(position=position):
                self.queued = position
            case server.Opened():
                self.begun, self._session_id = True, message.session_id
                self._tokens.append(message.token)
            case server.Heartbeat(taken=taken):
                self._proven = True
                self._check(taken)
            case _:
                pass
        self.ear.take(message)
        if isinstance(message, server.Opened):
            await self._acknowledge()

    async def idle(self) -> None:
        """Say what is due."""
        now = asyncio.get_running_loop().time()
        if self.begun and (self.ear.seen - self._acked >= ACK_EVERY or now - self._beat_s >= HEARTBEAT_S):
            self._beat_s = now
            await self._acknowledge()

    async def _acknowledge(self) -> None:
        self._acked = self.ear.seen
        await self._native.say(client.Ack(sequence=self._acked))
        await self._native.say(client.Heartbeat())

    async def speak(self, samples: Samples) -> None:
        """int16 [n] at 24 kHz."""
        frame = Frame(kind=MICROPHONE, sequence=self._next(), timestamp=self._position, payload=to_bytes(samples))
        self._position += len(samples)
        await self.link.send(pack(frame))

    async def write(self, text: str) -> None:
        """Something in writing, that is to be answered."""
        await self._native.say(client.Update(item=NewItem(role="user", text=text), sequence=self._next()))
        await self._native.say(client.Signal(signal=client.Respond(), sequence=self._next()))

    async def cancel(self) -> None:
        await self._native.say(client.Signal(signal=client.Cancel(), sequence=self._next()))

    async def configure(self, instructions: str, silence_ms: int) -> None:
        """Other instructions, and another way to find the end of a turn."""
        detection = (
            DetectionPatch(type="silence", silence_ms=silence_ms) if silence_ms else DetectionPatch(type="semantic")
        )
        settings = SettingsPatch(instructions=instructions, turn_detection=detection)
        await self._native.say(client.Update(settings=settings, sequence=self._next()))

    async def forget(self, item_id: str, *, cut_ms: int | None) -> None:
        """Delete an item, or cut an answer."""
        delete, cut = client.Delete(item_id=item_id), client.Truncate(item_id=item_id, audio_end_ms=cut_ms or 0)
        signal = delete if cut_ms is None else cut
        await self._native.say(client.Signal(signal=signal, sequence=self._next()))

    async def babble(self, choice: int) -> int | None:
        """Send nonsense; returns the code of the close that has to follow, if one has to."""
        message, code = NONSENSE[choice % len(NONSENSE)]
        await self.link.send(message)
        return code

    async def leave(self) -> None:
        """Close the session; its last word comes behind everything else."""
        await self._native.say(client.Close(sequence=self._next()))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _check(self, taken: int) -> None:
        if taken > self._number:
            self.ear.breach(f"the server has taken number {taken}, and {self._number} was the last")

    # Coming back; nothing else may read the connection meanwhile --------------------------------

    async def resume(self, *, missing: int) -> None:
        """Go on with the right token, as one that has not seen the newest `missing` messages.

        Raises:
            TalkError, LinkLost: the session cannot be had again.
        """
        native = await Native.connect(self._url)
        seen = max(0, self.ear.seen - min(missing, KEPT - 1))
        await native.say(self._asking(self._tokens[-1], seen))
        greeting = await native.hear()
        if not isinstance(greeting, server.Resumed):
            native.link.abort()
            raise TalkError(f"the session was not given back: {greeting}")
        self._check(greeting.taken)
        self._take_over(native)
        self._tokens.append(greeting.token)
        self._proven = False
        self.ear.resume(seen)
        await self._acknowledge()

    async def try_to_resume(self, attempt: Attempt) -> None:
        """Ask for the session as one who must not have it. What comes of it is told to the ear."""
        if attempt == "old token" and (len(self._tokens) < 2 or not self._proven):
            return
        token = (
            self._tokens[-1] if attempt == "future number" else self._tokens[-2] if attempt == "old token" else "x" * 32
        )
        seen = self.ear.seen + 10_000 if attempt == "future number" else self.ear.seen
        native = await Native.connect(self._url)
        try:
            await native.say(self._asking(token, seen))
            answer = await native.hear()
            if not isinstance(answer, server.Error) or answer.code != REFUSALS[attempt]:
                self.ear.breach(f"with {attempt} the session was asked for, and the answer is {answer}")
        finally:
            native.link.abort()

    async def replace(self) -> None:
        """Go on with another connection while this one is open, which has to be told so."""
        former = self._native
        await self.resume(missing=0)
        last: Message | None = None
        try:
            async with asyncio.timeout(5):
                while True:
                    last = await former.hear()
        except TimeoutError:
            self.ear.breach("a connection that was replaced is still open 5 s later")
            former.link.abort()
        except LinkLost:
            if not isinstance(last, server.Closed) or last.reason != "replaced":
                self.ear.breach(f"a connection that was replaced was told {last} at its end")

    def _asking(self, token: str, seen: int) -> client.Resume:
        return client.Resume(version=VERSION, session_id=self._session_id, token=token, seen=seen)
