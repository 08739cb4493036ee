"""Binary messages: one media frame each, a fixed header and then its payload.

All numbers are little-endian, as the samples are; the payload begins at a multiple of 8 bytes.

====== ===== ========= ==============================================================================
offset bytes name      meaning
====== ===== ========= ==============================================================================
0      1     kind      1: the client's microphone, 2: an answer's audio; both PCM, int16, mono
1      1     flags     bit 0: sent again after a resume; the others are 0, and ignored when read
2      2     reserved  0, and ignored when read
4      4     epoch     of the turn (kind 2); 0 in the client's frames
8      8     sequence  the sender's number of this message, from 1; 0 for none
16     8     timestamp samples before this frame: of the microphone (kind 1; not read), of the answer (kind 2)
24     2 n   payload   samples, at the rate that ``opened`` names
====== ===== ========= ==============================================================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MICROPHONE = 1
SPEECH = 2

AGAIN = 0x01
"""Flag: sent again after a resume."""

_HEADER = struct.Struct("<BBHIQQ")
HEADER_BYTES = _HEADER.size


class FrameError(ValueError):
    """Bytes that are no media frame; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One media frame; the attributes are those of the table above.

    Attributes:
        payload: whole little-endian int16 samples.
    """

    kind: int
    payload: bytes | memoryview
    flags: int = 0
    epoch: int = 0
    sequence: int = 0
    timestamp: int = 0

    @property
    def samples(self) -> int:
        """Length of the payload."""
        return len(self.payload) // 2

    @property
    def again(self) -> bool:
        return bool(self.flags & AGAIN)


def pack(frame: Frame) -> bytes:
    """The message. Raises struct.error for a number that does not fit."""
    head = _HEADER.pack(frame.kind, frame.flags, 0, frame.epoch, frame.sequence, frame.timestamp)
    return head + bytes(frame.payload)


def unpack(message: bytes) -> Frame:
    """The frame in a message; its payload is a view of it.

    Raises:
        FrameError: too short, of an unknown kind, or half a sample at its end.
    """
    if len(message) < HEADER_BYTES:
        raise FrameError(f"a media frame begins with {HEADER_BYTES} bytes of header; this has {len(message)} in all")
    kind, flags, _reserved, epoch, sequence, timestamp = _HEADER.unpack_from(message)
    if kind not in (MICROPHONE, SPEECH):
        raise FrameError(f"there is no media of kind {kind}; there are {MICROPHONE} and {SPEECH}")
    payload = memoryview(message)[HEADER_BYTES:]
    if len(payload) % 2:
        raise FrameError(f"{len(payload)} bytes are not a whole number of 16-bit samples; cut between samples")
    return Frame(kind=kind, flags=flags, epoch=epoch, sequence=sequence, timestamp=timestamp, payload=payload)
