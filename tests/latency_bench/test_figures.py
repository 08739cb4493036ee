"""Percentiles and word errors."""

from __future__ import annotations

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latency_bench.figures import percentile, word_errors, words


@pytest.mark.parametrize(("share", "value"), [(0.5, 10.0), (0.9, 18.0), (0.99, 20.0), (0.0, 1.0), (1.0, 20.0)])
def test_nearest_rank(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(20, 0, -1)], share) == value


def test_nothing_has_no_percentile() -> None:
    assert percentile([], 0.5) is None


sentences = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=8).map(" ".join)


@given(sentences, sentences)
def test_word_errors_agree_with_a_reference(said: str, heard: str) -> None:
    wrong, total = word_errors(said, heard)
    assert wrong / total == pytest.approx(jiwer.wer(said, heard))


def test_punctuation_case_and_kind_of_apostrophe_are_no_errors() -> None:
    assert words("Don\u2019t -- STOP, now!") == ["don't", "stop", "now"]
    assert word_errors("Hello, there.", "hello there") == (0, 2)
    assert word_errors("one two", "") == (2, 2)
