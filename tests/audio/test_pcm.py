"""Levels, and where sound begins and ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from duplex.audio.pcm import (
    SILENCE_DBFS,
    first_audible,
    from_bytes,
    last_audible,
    level_dbfs,
    to_bytes,
    to_float,
    to_int16,
)

RATE_HZ = 24_000


@given(arrays(np.int16, st.integers(0, 200)))
def test_int16_survives_both_round_trips(samples: np.ndarray) -> None:
    assert np.array_equal(to_int16(to_float(samples)), samples)
    assert np.array_equal(from_bytes(to_bytes(samples)), samples)


def test_too_loud_is_clipped_and_never_wraps() -> None:
    assert to_int16(np.array([1.5, 1.0, -1.0, -3.0], np.float32)).tolist() == [32767, 32767, -32768, -32768]


def test_an_odd_byte_count_is_refused() -> None:
    with pytest.raises(ValueError, match="even number of bytes, not 3"):
        from_bytes(b"abc")


def test_level_of_known_signals() -> None:
    sine = (32767 * np.sin(2 * np.pi * 1000 * np.arange(RATE_HZ) / RATE_HZ)).astype(np.int16)
    assert level_dbfs(sine) == pytest.approx(-3.01, abs=0.01)
    assert level_dbfs(np.full(100, -32768, np.int16)) == 0.0
    assert level_dbfs(np.zeros(100, np.int16)) == SILENCE_DBFS
    assert level_dbfs(np.zeros(0, np.int16)) == SILENCE_DBFS


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100])
def test_edges_are_exact_to_one_window(rate_hz: int) -> None:
    window = rate_hz // 100
    samples = np.zeros(rate_hz, np.int16)
    samples[window * 20 : window * 50] = 1000
    assert first_audible(samples, rate_hz) == window * 20
    assert last_audible(samples, rate_hz) == window * 50


def test_the_threshold_itself_is_audible_and_just_below_is_not() -> None:
    at = int(np.ceil(32768 * 10 ** (-40 / 20)))
    assert first_audible(np.full(480, at, np.int16), RATE_HZ) == 0
    assert first_audible(np.full(480, at - 1, np.int16), RATE_HZ) is None


def test_silence_and_nothing_have_no_edges() -> None:
    for samples in (np.zeros(1000, np.int16), np.zeros(0, np.int16)):
        assert first_audible(samples, RATE_HZ) is None
        assert last_audible(samples, RATE_HZ) is None


def test_a_short_last_window_counts() -> None:
    samples = np.zeros(250, np.int16)
    samples[240:] = 5000
    assert first_audible(samples, RATE_HZ) == 240
    assert last_audible(samples, RATE_HZ) == 250
