"""The tape holds the right samples under the right positions, and finds where speech lies in them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duplex.models.voice.quiet import quietest_cut, speech_span
from duplex.models.voice.tape import AudioTape

RATE_HZ = 16_000
WORLD = (np.arange(2000) % 30_011).astype(np.int16)


@given(
    capacity=st.integers(1, 120),
    slack=st.integers(0, 60),
    steps=st.lists(st.tuples(st.integers(0, 200), st.booleans(), st.integers(0, 300)), max_size=12),
)
def test_reads_what_was_written(capacity: int, slack: int, steps: list[tuple[int, bool, int]]) -> None:
    tape = AudioTape(capacity=capacity, slack=slack)
    end = floor = 0
    for length, forget, read_at in steps:
        tape.append(WORLD[end : end + length], end)
        end = min(end + length, len(WORLD))
        if forget:
            floor = max(floor, min(end, end - length // 2))
            tape.forget_before(floor)
        assert tape.end == end
        assert tape.start == min(max(end - capacity, floor, 0), end)
        low = max(read_at, tape.start)
        np.testing.assert_array_equal(tape.read(read_at, read_at + 50), WORLD[low : max(low, min(read_at + 50, end))])


def test_begins_where_its_first_samples_do() -> None:
    tape = AudioTape(capacity=100)
    tape.append(WORLD[500:560], 500)
    assert (tape.start, tape.end) == (500, 560)
    np.testing.assert_array_equal(tape.read(0, 1000), WORLD[500:560])


def test_a_gap_is_silence_and_what_comes_twice_is_kept_once() -> None:
    tape = AudioTape(capacity=100)
    tape.append(WORLD[1:11], 1)
    tape.append(WORLD[6:16], 6)
    np.testing.assert_array_equal(tape.read(0, 100), WORLD[1:16])
    tape.append(WORLD[20:30], 20)
    np.testing.assert_array_equal(tape.read(14, 22), [14, 15, 0, 0, 0, 0, 20, 21])
    tape.append(WORLD[1000:1010], 1000)
    assert (tape.start, tape.end) == (910, 1010)
    assert not tape.read(0, 1000).any()


def test_what_is_read_is_a_copy() -> None:
    tape = AudioTape(capacity=10, slack=0)
    tape.append(WORLD[1:11], 1)
    read = tape.read(1, 11)
    tape.append(WORLD[11:21], 11)
    np.testing.assert_array_equal(read, WORLD[1:11])


def tone(length_s: float, level: float) -> NDArray[np.int16]:
    wave: NDArray[np.float64] = np.round(level * np.sin(np.arange(round(length_s * RATE_HZ)) * 0.3))
    return wave.astype(np.int16)


def test_the_span_of_speech_has_a_margin_and_ends_with_the_audio() -> None:
    room = tone(1.0, 20)
    span = speech_span(np.concatenate((room, tone(0.5, 8000), tone(0.2, 600), room)))
    assert span == (16_000 - 2400, 16_000 + 8000 + 3200 + 2400)
    assert speech_span(tone(0.5, 8000)) == (0, 8000)


def test_silence_and_nothing_have_no_span() -> None:
    assert speech_span(tone(1.0, 30)) is None
    assert speech_span(np.zeros(0, dtype=np.int16)) is None
    assert speech_span(np.zeros(7, dtype=np.int16)) is None


def test_the_cut_falls_into_the_longest_quiet_stretch() -> None:
    audio = np.concatenate((tone(1.0, 8000), tone(0.1, 0), tone(0.5, 8000), tone(0.3, 0), tone(1.0, 8000)))
    assert abs(quietest_cut(audio, 0, len(audio)) - 1.75 * RATE_HZ) <= 0.06 * RATE_HZ
    assert abs(quietest_cut(audio, RATE_HZ // 2, round(1.4 * RATE_HZ)) - 1.05 * RATE_HZ) <= 0.06 * RATE_HZ
