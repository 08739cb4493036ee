"""What a server of the OpenAI Realtime protocol says, as a client reads it.

Deliberately not the server's own structs: a client that shares them cannot notice that they are wrong.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from duplex.audio.pcm import Samples, from_bytes
from duplex.errors import TalkError


class Failure(msgspec.Struct, frozen=True):
    """Content of an ``error`` event, and of a failed response's ``status_details.error``."""

    message: str = ""
    type: str | None = None
    code: str | None = None


class StatusDetails(msgspec.Struct, frozen=True):
    """Why a response ended as it did: `reason` is for example ``turn_detected``."""

    reason: str | None = None
    error: Failure | None = None


class Response(msgspec.Struct, frozen=True):
    """As much of a response as a conversation needs."""

    id: str = ""
    status: str | None = None
    status_details: StatusDetails | None = None


class Event(msgspec.Struct, frozen=True):
    """Any server event. Fields that its type does not have are at their defaults; fields not named here are ignored."""

    type: str
    item_id: str = ""
    response_id: str = ""
    delta: str = ""
    transcript: str | None = None
    text: str | None = None
    audio_start_ms: int | None = None
    audio_end_ms: int | None = None
    response: Response | None = None
    session: dict[str, Any] | None = None
    error: Failure | None = None
    position: int | None = None
    eta_s: float | None = None

    def pcm(self) -> Samples:
        """The audio of a ``response.output_audio.delta``, int16 [n].

        Raises:
            TalkError: it is not base64 of whole 16-bit samples.
        """
        try:
            return from_bytes(base64.b64decode(self.delta, validate=True))
        except (binascii.Error, ValueError) as error:
            raise TalkError(f"the server sent audio that cannot be decoded ({error}); report it as a bug") from None


_decoder = msgspec.json.Decoder(Event)


def decode(message: str | bytes) -> Event:
    """Read one message.

    Raises:
        TalkError: not JSON, or not an event of this protocol.
    """
    try:
        return _decoder.decode(message)
    except msgspec.DecodeError as error:
        raise TalkError(f"the server does not speak the OpenAI Realtime protocol ({error}); check --url") from None
