"""Resampling in chunks is resampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.audio.resample import Resampler, resample

RATES = [(24_000, 16_000), (16_000, 24_000), (48_000, 24_000), (8_000, 24_000), (44_100, 24_000), (24_000, 24_000)]


def sine(freq_hz: float, rate_hz: int, seconds: float = 1.0, peak: int = 20_000) -> np.ndarray:
    return (peak * np.sin(2 * np.pi * freq_hz * np.arange(int(rate_hz * seconds)) / rate_hz)).astype(np.int16)


def decibels(samples: np.ndarray, peak: int = 20_000) -> float:
    middle = samples[len(samples) // 4 : -len(samples) // 4].astype(float)
    return float(20 * np.log10(np.sqrt(np.mean(middle**2)) / (peak / 2**0.5) + 1e-9))


@settings(max_examples=40, deadline=None)
@given(rates=st.sampled_from(RATES), sizes=st.lists(st.integers(0, 1500), max_size=20), seed=st.integers(0, 99))
def test_any_cut_gives_the_same_samples(rates: tuple[int, int], sizes: list[int], seed: int) -> None:
    samples = (np.random.default_rng(seed).standard_normal(sum(sizes)) * 8000).astype(np.int16)
    resampler = Resampler(from_hz=rates[0], to_hz=rates[1])
    pieces, start = [], 0
    for size in sizes:
        pieces.append(resampler.push(samples[start : start + size]))
        start += size
    chunked = np.concatenate([*pieces, resampler.flush()])
    assert np.array_equal(chunked, resample(samples, from_hz=rates[0], to_hz=rates[1]))


@pytest.mark.parametrize("rates", RATES)
def test_length_and_time_are_kept(rates: tuple[int, int]) -> None:
    from_hz, to_hz = rates
    samples = np.zeros(from_hz, np.int16)
    samples[from_hz // 2 :] = sine(1000, from_hz, 0.5)
    out = resample(samples, from_hz=from_hz, to_hz=to_hz)
    assert len(out) == to_hz
    onset = int(np.flatnonzero(np.abs(out.astype(int)) > 4000)[0])
    assert onset == pytest.approx(to_hz // 2 + to_hz / 1000 * 0.03, abs=5)


@pytest.mark.parametrize(
    ("rates", "most_ms"), [((24_000, 16_000), 10.1), ((16_000, 24_000), 15.1), ((48_000, 24_000), 5.1)]
)
def test_what_is_owed_after_each_20_ms_stays_small(rates: tuple[int, int], most_ms: float) -> None:
    from_hz, to_hz = rates
    resampler = Resampler(from_hz=from_hz, to_hz=to_hz)
    given_s = 0.0
    for frame in range(1, 101):
        given_s += len(resampler.push(np.zeros(from_hz // 50, np.int16))) / to_hz
        assert (frame / 50 - given_s) * 1000 <= most_ms


def test_speech_band_passes_and_what_would_alias_is_gone() -> None:
    assert decibels(resample(sine(7_000, 24_000), from_hz=24_000, to_hz=16_000)) == pytest.approx(0, abs=0.1)
    assert decibels(resample(sine(9_000, 24_000), from_hz=24_000, to_hz=16_000)) < -85


def test_no_click_where_chunks_meet() -> None:
    resampler = Resampler(from_hz=16_000, to_hz=24_000)
    tone = sine(440, 16_000)
    out = np.concatenate([resampler.push(tone[i : i + 320]) for i in range(0, len(tone), 320)])
    steps = np.abs(np.diff(out[2400:].astype(int)))
    assert steps.max() <= 20_000 * 2 * np.pi * 440 / 24_000 + 2


def test_full_scale_is_clipped_and_never_wraps() -> None:
    square = np.where(np.arange(4800) // 60 % 2, -32768, 32767).astype(np.int16)
    out = resample(square, from_hz=24_000, to_hz=16_000)
    assert out.max() == 32767
    plateau = out[41:79].astype(int)  # second half-wave, away from its edges
    assert (plateau[4:-4] < -25_000).all() or (plateau[4:-4] > 25_000).all()


def test_equal_rates_pass_through_at_once() -> None:
    samples = sine(440, 24_000, 0.1)
    resampler = Resampler(from_hz=24_000, to_hz=24_000)
    assert np.array_equal(resampler.push(samples), samples)
    assert len(resampler.flush()) == 0


def test_a_flushed_resampler_begins_anew() -> None:
    samples = sine(440, 24_000, 0.1)
    resampler = Resampler(from_hz=24_000, to_hz=16_000)
    first = np.concatenate([resampler.push(samples), resampler.flush()])
    second = np.concatenate([resampler.push(samples), resampler.flush()])
    assert np.array_equal(first, second)


def test_a_rate_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 Hz, not 0 and 24000"):
        Resampler(from_hz=0, to_hz=24_000)
