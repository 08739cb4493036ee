"""A WAV as a microphone: frames on an absolute clock, and a quiet room where nobody speaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import numpy as np

from duplex.audio.pcm import Samples, first_audible, last_audible, to_int16

RATE_HZ = 24_000
FRAME_MS = 20
ROOM_DBFS = -60.0
"""Level of the room: white noise, as a real microphone is never digitally silent; 20 dB below what is audible."""

_NOISE_S = 10


class Microphone:
    """What has been said and when each sample was handed over; knows no clock.

    Positions count samples from the first frame. Speech that is queued while a frame is being played begins with the
    next frame; a frame that speech does not fill is filled up with the noise of the room. The noise is the same in
    every run.

    Args:
        room_dbfs: level of the noise.
        frame_ms: length of one frame.
    """

    def __init__(self, *, room_dbfs: float = ROOM_DBFS, frame_ms: int = FRAME_MS) -> None:
        self.frame_samples = RATE_HZ * frame_ms // 1000
        self._noise = _white_noise(room_dbfs)
        self._speech: deque[Samples] = deque()
        self._queued = 0
        self._sent_s: list[float] = []
        self._audible_end: list[int] = []
        self._onsets: list[int] = []

    @property
    def position(self) -> int:
        """Samples handed over so far."""
        return len(self._sent_s) * self.frame_samples

    @property
    def queued(self) -> int:
        """Samples of speech that wait to be played."""
        return self._queued

    @property
    def audible_end(self) -> int:
        """One past the last audible sample handed over so far; 0 before there was any."""
        return self._audible_end[-1] if self._audible_end else 0

    def room(self, room_dbfs: float) -> None:
        """Set the level of the noise from the next frame on."""
        self._noise = _white_noise(room_dbfs)

    def say(self, samples: Samples) -> int:
        """Queue int16 [n] at 24 kHz behind what is queued already; returns the position of its first sample."""
        start = self.position + self._queued
        if len(samples):
            self._speech.append(samples)
            self._queued += len(samples)
        return start

    def frame(self) -> Samples:
        """The next frame, int16 [frame_samples]; `handed` must follow."""
        start = self.position % len(self._noise)
        frame = np.resize(self._noise[start : start + self.frame_samples], self.frame_samples)
        filled = 0
        while self._speech and filled < len(frame):
            piece = self._speech.popleft()
            taken = min(len(piece), len(frame) - filled)
            frame[filled : filled + taken] = piece[:taken]
            if taken < len(piece):
                self._speech.appendleft(piece[taken:])
            filled += taken
        self._queued -= filled
        return frame

    def handed(self, frame: Samples, now: float) -> None:
        """Note that the frame was handed to the socket at `now`, in seconds of the caller's clock."""
        end = last_audible(frame, RATE_HZ)
        onset = first_audible(frame, RATE_HZ)
        position = self.position
        self._sent_s.append(now)
        self._audible_end.append(self.audible_end if end is None else position + end)
        self._onsets.append(-1 if onset is None else position + onset)

    def sent_s(self, position: int) -> float | None:
        """When the sample just before `position` was handed over; None where it has not been yet."""
        index = (max(position, 1) - 1) // self.frame_samples
        return self._sent_s[index] if index < len(self._sent_s) else None

    def onset(self, start: int) -> int | None:
        """Position of the first audible window at or after `start`, exact to one window; None where there is none."""
        frames = self._onsets[start // self.frame_samples :]
        return next((onset for onset in frames if onset >= start), None)

    async def play(
        self,
        append: Callable[[Samples], Awaitable[None]],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        played: Callable[[], None],
    ) -> None:
        """Hand frames to `append` for ever, each when its last sample would have been recorded.

        Frame k is due at start + (k + 1) frames on an absolute clock: a late frame does not delay the later ones.
        A sample's time is that of the call that hands its frame over, so up to one frame of recording before it
        is not counted. `played` is called after each frame.
        """
        start_s = clock()
        frame_s = self.frame_samples / RATE_HZ
        while True:
            due_s = start_s + (len(self._sent_s) + 1) * frame_s
            await sleep(max(0.0, due_s - clock()))
            frame = self.frame()
            # Noted before the call: it may wait for a full socket, and that wait belongs into the figures.
            self.handed(frame, clock())
            await append(frame)
            played()


def _white_noise(level_dbfs: float) -> Samples:
    noise = np.random.default_rng(0).standard_normal(_NOISE_S * RATE_HZ, dtype=np.float32)
    return to_int16(noise * np.float32(10 ** (level_dbfs / 20)))
