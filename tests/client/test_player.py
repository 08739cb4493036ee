"""The microphone, on a virtual clock."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.audio.pcm import first_audible, level_dbfs
from duplex.client.player import RATE_HZ, Microphone

FRAME = 480


def loud(n: int) -> np.ndarray:
    return np.full(n, 8000, np.int16)


def take(microphone: Microphone, frames: int, *, start_s: float = 0.0) -> np.ndarray:
    out = []
    for index in range(frames):
        frame = microphone.frame()
        microphone.handed(frame, start_s + (index + 1) * 0.02)
        out.append(frame)
    return np.concatenate(out)


def test_a_room_where_nobody_speaks_is_quiet_and_not_dead() -> None:
    heard = take(Microphone(), 100)
    assert level_dbfs(heard) == pytest.approx(-60, abs=0.5)
    assert first_audible(heard, RATE_HZ) is None


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2000), max_size=6))
def test_all_that_is_said_is_played_once_in_order_and_without_a_gap(sizes: list[int]) -> None:
    microphone = Microphone(room_dbfs=-200.0)
    pieces = [np.arange(1, size + 1).astype(np.int16) for size in sizes]
    starts = [microphone.say(piece) for piece in pieces]
    heard = take(microphone, sum(sizes) // FRAME + 2)
    assert np.array_equal(heard[: sum(sizes)], np.concatenate([np.zeros(0, np.int16), *pieces]))
    assert not heard[sum(sizes) :].any()
    assert starts == [sum(sizes[:index]) for index in range(len(sizes))]
    assert microphone.queued == 0


def test_a_samples_time_is_that_of_its_frame() -> None:
    microphone = Microphone()
    take(microphone, 2, start_s=10.0)
    assert microphone.sent_s(1) == pytest.approx(10.02)
    assert microphone.sent_s(FRAME) == pytest.approx(10.02)
    assert microphone.sent_s(FRAME + 1) == pytest.approx(10.04)
    assert microphone.sent_s(2 * FRAME + 1) is None


def test_edges_of_speech_lie_on_the_microphones_axis() -> None:
    microphone = Microphone()
    take(microphone, 3)
    start = microphone.say(loud(FRAME + 240))
    take(microphone, 5)
    assert start == 3 * FRAME
    assert microphone.audible_end == start + FRAME + 240
    assert microphone.onset(0) == start
    assert microphone.onset(start + FRAME) == start + FRAME
    assert microphone.onset(start + 2 * FRAME) is None


def test_the_clock_is_absolute_and_a_late_frame_delays_no_other() -> None:
    now = 100.0
    handed: list[float] = []

    def clock() -> float:
        return now

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds + (0.05 if len(handed) == 3 else 0.0)  # the fourth frame is 50 ms late
        if len(handed) == 10:
            raise asyncio.CancelledError

    async def append(samples: np.ndarray) -> None:
        assert len(samples) == FRAME
        handed.append(now)

    microphone = Microphone()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(microphone.play(append, clock=clock, sleep=sleep, played=lambda: None))
    late = 100.0 + 0.02 * 4 + 0.05
    due = [100.0 + 0.02 * (index + 1) for index in range(10)]
    assert handed == pytest.approx([max(at, late) if index >= 3 else at for index, at in enumerate(due)])
    assert microphone.sent_s(4 * FRAME) == pytest.approx(late)


def test_a_full_socket_counts_as_time_after_the_sample_was_sent() -> None:
    now = 0.0
    frames = 0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if frames == 1:
            raise asyncio.CancelledError

    async def append(samples: np.ndarray) -> None:
        nonlocal now, frames
        now += 5.0
        frames += 1

    microphone = Microphone()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(microphone.play(append, clock=lambda: now, sleep=sleep, played=lambda: None))
    assert microphone.sent_s(FRAME) == pytest.approx(0.02)
