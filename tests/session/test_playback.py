"""The playback ledger: pacing, the listener's clock, and how much text was heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.connector.base import Handle
from duplex.connector.payload import Kind
from duplex.errors import StateError
from duplex.session.fence import MAIN, Fence
from duplex.session.playback import Playback, PlaybackState, cut_to_words

HZ = 1000
FENCE = Fence("s", 0, MAIN, 1)


def chunk(key: int, samples: int, text_end: int = 0) -> Handle:
    return Handle(fence=FENCE, kind=Kind.VOICED, key=key, nbytes=0, samples=samples, text_end=text_end)


def test_sends_at_most_so_much_ahead_and_says_when_to_come_back() -> None:
    playback = Playback(hz=HZ, ahead_s=0.5)
    for key in range(10):
        playback.offer(chunk(key, 200))
    assert [handle.key for handle in playback.due(10.0)] == [0, 1]
    assert playback.deadline(10.0) == pytest.approx(10.1)
    assert playback.due(10.05) == []
    assert [handle.key for handle in playback.due(10.1)] == [2]
    assert playback.played(10.1) == 100
    assert playback.sent == 600


def test_the_clock_stands_still_while_there_is_nothing_to_play() -> None:
    playback = Playback(hz=HZ, ahead_s=0.5)
    playback.offer(chunk(0, 100))
    playback.due(0.0)
    assert playback.played(5.0) == 100
    playback.offer(chunk(1, 100))
    playback.due(5.0)
    assert playback.played(5.05) == 150, "the second chunk began when it was sent, not before"


def test_stop_tells_what_was_heard_and_sends_nothing_more() -> None:
    playback = Playback(hz=HZ, ahead_s=0.5)
    playback.offer(chunk(0, 400, text_end=8))
    playback.offer(chunk(1, 400, text_end=20))
    playback.due(0.0)
    heard = playback.stop(0.2)
    assert (heard.samples, heard.text_end) == (200, 4)
    assert playback.due(9.0) == []
    assert playback.deadline(9.0) is None
    with pytest.raises(StateError):
        playback.offer(chunk(2, 1))


def test_is_sent_only_when_nothing_waits() -> None:
    playback = Playback(hz=HZ, ahead_s=0.1)
    playback.offer(chunk(0, 100))
    playback.offer(chunk(1, 100))
    playback.due(0.0)
    playback.end()
    assert playback.state is PlaybackState.ENDING
    playback.due(0.1)
    assert playback.state is PlaybackState.SENT


@given(
    chunks=st.lists(st.tuples(st.integers(1, 900), st.floats(0, 1.5)), max_size=20),
    ahead_s=st.floats(0.05, 0.8),
)
def test_never_further_ahead_than_allowed_and_never_in_another_order(
    chunks: list[tuple[int, float]], ahead_s: float
) -> None:
    playback, now, sent, played = Playback(hz=HZ, ahead_s=ahead_s), 0.0, [], 0.0
    for key, (samples, wait_s) in enumerate(chunks):
        playback.offer(chunk(key, samples))
        until = now + wait_s
        while now <= until:
            for handle in playback.due(now):
                ahead = sum(one.samples for one in sent) - played + handle.samples
                # The core reckons in whole samples, this in fractions: each restart of the clock may cost half of one.
                assert ahead <= max(ahead_s * HZ, handle.samples) + 1 + len(sent) / 2
                sent.append(handle)
            deadline = playback.deadline(now)
            step = min(until, deadline) if deadline is not None else until
            played = min(sum(one.samples for one in sent), played + (step - now) * HZ)
            if step == until:
                now = until
                break
            now = step
    assert [handle.key for handle in sent] == list(range(len(sent)))


@given(text=st.text(alphabet="ab ,.", max_size=40), end=st.integers(-5, 50))
def test_what_was_heard_is_whole_words_from_the_front(text: str, end: int) -> None:
    heard = cut_to_words(text, end)
    assert text.startswith(heard)
    assert len(heard) <= max(end, 0) or end >= len(text)
    rest = text[len(heard) :]
    assert not heard or not rest or rest[0].isspace(), "a word was cut in two"


def test_a_listener_that_says_what_it_has_played_is_believed() -> None:
    playback = Playback(hz=HZ, ahead_s=0.5, acknowledged=True)
    for key in range(10):
        playback.offer(chunk(key, 200))
    assert [handle.key for handle in playback.due(0.0)] == [0, 1]
    assert playback.deadline(0.0) is None, "time alone does nothing"
    assert playback.due(100.0) == []
    assert playback.played(100.0) == 0
    assert playback.acknowledge(100)
    assert playback.deadline(100.0) == 100.0
    assert [handle.key for handle in playback.due(100.0)] == [2]
    assert not playback.acknowledge(50), "that was earlier"
    assert playback.played(100.0) == 100
    with pytest.raises(ValueError, match="601 samples of 600"):
        playback.acknowledge(601)
    assert playback.stop(200.0).samples == 100


@pytest.mark.parametrize("acknowledged", [False, True])
def test_without_a_listener_nothing_is_due_and_no_clock_runs(acknowledged: bool) -> None:
    playback = Playback(hz=HZ, ahead_s=0.5, acknowledged=acknowledged)
    for key in range(10):
        playback.offer(chunk(key, 200))
    playback.due(0.0)
    playback.halt(0.2)
    heard = 0 if acknowledged else 200
    assert playback.played(50.0) == heard
    assert playback.deadline(50.0) is None
    assert playback.due(50.0) == []
    playback.go_on(50.0)
    playback.go_on(50.1)
    assert playback.played(50.1) == heard + (0 if acknowledged else 100)


def test_a_listener_gone_from_the_start_is_sent_nothing() -> None:
    playback = Playback(hz=HZ, ahead_s=0.5)
    playback.halt(0.0)
    playback.offer(chunk(0, 200))
    assert playback.due(1.0) == []
    playback.go_on(2.0)
    assert [handle.key for handle in playback.due(2.0)] == [0]
