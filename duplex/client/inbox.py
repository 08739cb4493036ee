"""What has come from the server: each thing once, and nothing of an answer that was interrupted. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from duplex.audio.pcm import Samples, from_bytes
from duplex.errors import TalkError
from duplex.protocol.native import server
from duplex.protocol.native.item import Response
from duplex.protocol.native.media import FrameError, unpack

ANSWERS = 8
"""Answers whose names are kept: audio names its answer by the epoch alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Audio of an answer. `pcm`: int16 [n]; `start`: position of its first sample in the answer's audio."""

    response_id: str
    item_id: str
    epoch: int
    start: int
    pcm: Samples

    @property
    def end(self) -> int:
        """One past its last sample: what `Session.played` takes once it has been played."""
        return self.start + len(self.pcm)


Event = server.AnyServerMessage | Speech


class _Unknown(msgspec.Struct):
    """A message of a newer server."""

    type: str


_messages = msgspec.json.Decoder(server.AnyServerMessage)
_unknown = msgspec.json.Decoder(_Unknown)


class Inbox:
    """Takes messages and frames, from one connection after another.

    Attributes:
        seen: the highest number so far.
        silenced_bytes: audio that came of an answer after it had been interrupted.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.silenced_bytes = 0
        self._silenced = 0  # audio of this epoch and earlier ones is not to be played any more
        self._answers: dict[int, tuple[str, str]] = {}

    def message(self, message: server.AnyServerMessage) -> Event | None:
        """The message, if it is new."""
        number = 0 if isinstance(message, server.Queued | server.Resumed | server.Heartbeat) else message.sequence
        if number and number <= self.seen:
            return None
        self.seen = max(self.seen, number)
        match message:
            case server.ResponseCreated(response=response):
                self._know(response)
            case server.Snapshot(response=response) if response is not None:
                self._know(response)
            case server.ResponseItem(response_id=response_id, item_id=item_id):
                for epoch, names in self._answers.items():
                    if names[0] == response_id:
                        self._answers[epoch] = (response_id, item_id)
            case server.Interrupted(epoch=epoch):
                self._silenced = max(self._silenced, epoch)
            case _:
                pass
        return message

    def _know(self, response: Response) -> None:
        item_id = response.item.item_id if response.item is not None else ""
        self._answers[response.epoch] = (response.response_id, item_id)
        while len(self._answers) > ANSWERS:
            del self._answers[min(self._answers)]

    def frame(self, message: bytes) -> Speech | None:
        """The audio, if it is new and to be heard.

        Raises:
            TalkError: it is no media frame.
        """
        try:
            frame = unpack(message)
        except FrameError as error:
            raise TalkError(f"the server sent media that cannot be read ({error}); report it as a bug") from None
        if frame.sequence <= self.seen:
            return None
        self.seen = frame.sequence
        if frame.epoch <= self._silenced:
            self.silenced_bytes += len(frame.payload)
            return None
        response_id, item_id = self._answers.get(frame.epoch, ("", ""))
        return Speech(
            response_id=response_id,
            item_id=item_id,
            epoch=frame.epoch,
            start=frame.timestamp,
            pcm=from_bytes(frame.payload),
        )


def decode(message: str | bytes) -> server.AnyServerMessage:
    try:
        return _messages.decode(message)
    except msgspec.DecodeError as error:
        try:
            newer = _unknown.decode(message)
        except msgspec.DecodeError:
            raise TalkError(f"the server does not speak this protocol ({error}); check the address") from None
        # Servers may be newer than this: what they say more is nothing that this client could use.
        return server.Error(code="unknown_message", message=f"a message of the type {newer.type!r} was passed over")
