"""session/ring: the newest samples by position, in as much memory as they need."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duplex.session.ring import AudioRing


@given(
    st.integers(1, 40),
    st.lists(st.integers(0, 60), max_size=12),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=6),
)
def test_it_keeps_the_newest(capacity: int, writes: list[int], reads: list[tuple[int, int]]) -> None:
    ring, said = AudioRing(capacity=capacity), np.arange(sum(writes), dtype=np.int16)
    at = 0
    for count in writes:
        ring.write(said[at : at + count])
        at += count
        assert (ring.start, ring.end) == (max(0, at - capacity), at)
        assert ring.nbytes <= 2 * capacity
        for start, length in [*reads, (0, at)]:
            wanted = said[:at][max(start, ring.start) : max(start + length, 0)]
            assert ring.read(start, start + length).tolist() == wanted.tolist()


def test_it_takes_no_memory_before_it_is_needed() -> None:
    ring = AudioRing(capacity=160_000)
    assert ring.nbytes == 0
    ring.write(np.ones(320, np.int16))
    assert ring.nbytes == 640
    for _ in range(1000):
        ring.write(np.ones(320, np.int16))
    assert ring.nbytes == 320_000
