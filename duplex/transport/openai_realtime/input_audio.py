"""The client's microphone: from wire audio to the session's, in slices that keep the server fair."""

from __future__ import annotations

from collections.abc import Iterator

from duplex.audio.pcm import Samples, from_bytes
from duplex.audio.resample import Resampler
from duplex.errors import ClientError
from duplex.protocol.openai_realtime.session import WIRE_HZ
from duplex.session.events import AppendAudio, ClearAudio, CommitAudio

SLICE_MS = 200
"""Longest audio that is resampled and handed in at once: one message may hold minutes of it."""


class InputAudio:
    """Resamples one session's input; the filter's memory spans the messages.

    Args:
        session_hz: rate that the session listens at.
    """

    def __init__(self, *, session_hz: int) -> None:
        self._resampler = Resampler(from_hz=WIRE_HZ, to_hz=session_hz)

    def append(self, audio: bytes) -> Iterator[AppendAudio]:
        """Slices of `audio`, resampled one by one as they are asked for.

        Raises:
            ClientError: half a sample; nothing is taken. Raised by the call, not while iterating.
        """
        if len(audio) % 2:
            raise ClientError(
                f"audio: {len(audio)} bytes are not a whole number of 16-bit samples; cut between samples",
                code="invalid_value",
                param="audio",
            )
        return self._slices(from_bytes(audio))

    def _slices(self, samples: Samples) -> Iterator[AppendAudio]:
        step = WIRE_HZ * SLICE_MS // 1000
        for start in range(0, len(samples), step):
            pcm = self._resampler.push(samples[start : start + step])
            if len(pcm):
                yield AppendAudio(pcm=pcm)

    def commit(self, event: CommitAudio) -> Iterator[AppendAudio | CommitAudio]:
        """What the resampler still owes, and then the commit: no word's end stays behind."""
        rest = self._resampler.flush()
        if len(rest):
            yield AppendAudio(pcm=rest)
        yield event

    def clear(self, event: ClearAudio) -> Iterator[ClearAudio]:
        """The clear; what the resampler still owes is forgotten too."""
        self._resampler.flush()
        yield event
