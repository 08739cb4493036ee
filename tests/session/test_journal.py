"""The journal alone: numbers, replays, gaps, bounds."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.errors import ClientError
from duplex.session.fence import MAIN, Fence
from duplex.session.journal import Journal
from duplex.session.notices import AudioCleared, Closed, Snapshot
from duplex.session.port import NOTICE_BYTES, Audio
from duplex.session.settings import SessionSettings
from tests.session.frozen import frozen

NOTICE = AudioCleared()


def journal(*, waiting: int = 100, kept: int = 100, kept_bytes: int = 100_000) -> Journal:
    return Journal(waiting=waiting, kept=kept, kept_bytes=kept_bytes)


def audio(epoch: int, samples: int = 100) -> Audio:
    fence = Fence("sess_t", 0, MAIN, epoch)
    return Audio(fence=fence, response_id="resp", item_id="item", pcm=np.zeros(samples, np.int16))


def sent(book: Journal) -> list[tuple[int, bool]]:
    """Take everything; numbers, and whether they were sent before."""
    taken = []
    while (entry := book.take()) is not None:
        taken.append((entry.sequence, entry.again))
    return taken


def filled(book: Journal, entries: int) -> Journal:
    for _ in range(entries):
        assert book.put(NOTICE)
    return book


def test_numbers_are_given_when_things_are_sent() -> None:
    book = filled(journal(), 1)
    book.put(audio(1))
    book.put(audio(2))
    book.put(NOTICE)
    assert book.retire(Fence("sess_t", 0, MAIN, 1)) == 1
    assert sent(book) == [(1, False), (2, False), (3, False)], "there is no hole where nothing was sent"


@pytest.mark.parametrize(("seen", "again"), [(0, [1, 2, 3]), (2, [3]), (3, [])])
def test_what_was_not_seen_is_sent_again(seen: int, again: list[int]) -> None:
    book = filled(journal(), 3)
    sent(book)
    filled(book, 1)
    assert book.rewind(seen)
    assert sent(book) == [*((number, True) for number in again), (4, False)]


def test_a_replay_that_broke_off_goes_on_where_the_next_one_says() -> None:
    book = filled(journal(), 5)
    sent(book)
    assert book.rewind(1)
    assert [book.take().sequence for _ in range(2)] == [2, 3]  # type: ignore[union-attr]
    assert book.rewind(2)
    assert sent(book) == [(3, True), (4, True), (5, True)]


@pytest.mark.parametrize(("fresh", "fits"), [(3, True), (4, False)])
def test_who_comes_back_finds_room(fresh: int, fits: bool) -> None:
    """Half of it, or is told the whole state; else it could be found too slow before it has read anything."""
    book = filled(journal(waiting=10), 2)
    sent(book)
    filled(book, fresh)
    before = frozen(book)
    assert book.rewind(0) is fits
    assert fits or frozen(book) == before


def test_what_was_acknowledged_is_gone() -> None:
    book = filled(journal(), 4)
    sent(book)
    book.acknowledge(3)
    assert (book.kept, book.kept_bytes) == (1, NOTICE_BYTES)
    assert book.rewind(3)
    assert not book.rewind(2), "whoever has acknowledged more than it says to have seen is not the one"


def test_the_oldest_are_forgotten_and_a_gap_is_noticed() -> None:
    book = filled(journal(kept=3), 5)
    sent(book)
    before = frozen(book)
    assert not book.rewind(1)
    assert frozen(book) == before
    assert book.rewind(2)
    assert sent(book) == [(3, True), (4, True), (5, True)]


def test_bytes_are_bounded_too() -> None:
    book = journal(kept_bytes=1000)
    for _ in range(10):
        book.put(audio(1, samples=200))
    sent(book)
    assert (book.kept, book.kept_bytes) == (2, 800)
    assert not book.rewind(7)


def test_audio_of_an_interrupted_turn_is_in_no_replay() -> None:
    book = journal()
    for told in (NOTICE, audio(1), audio(2), NOTICE):
        book.put(told)
    sent(book)
    book.retire(Fence("sess_t", 0, MAIN, 1))
    assert book.kept_bytes == 2 * NOTICE_BYTES + 200
    assert book.rewind(0), "what nobody wants is no gap"
    assert sent(book) == [(1, True), (3, True), (4, True)]


@pytest.mark.parametrize("verb", ["acknowledge", "rewind", "check"])
def test_numbers_from_the_future_change_nothing(verb: str) -> None:
    book = filled(journal(), 3)
    book.take()
    before = frozen(book)
    with pytest.raises(ClientError) as caught:
        getattr(book, verb)(2)
    assert caught.value.code == "sequence_unknown"
    assert frozen(book) == before


def test_a_full_journal_says_so_but_has_room_for_the_last_word() -> None:
    book = filled(journal(waiting=2), 2)
    assert not book.put(NOTICE)
    assert book.put(Closed(reason="client", message=""))
    assert len(book) == 3


def test_a_session_that_cannot_be_resumed_keeps_nothing() -> None:
    book = filled(journal(kept=0), 3)
    sent(book)
    assert (book.kept, book.kept_bytes) == (0, 0)


def snapshot() -> Snapshot:
    return Snapshot(
        session_id="sess_t",
        conversation_id="conv_t",
        settings=SessionSettings(),
        items=(),
        response=None,
        speaking=None,
    )


def test_after_a_restart_only_what_comes_then_is_there() -> None:
    book = filled(journal(), 3)
    book.take()
    book.restart(snapshot())
    assert not book.rewind(0)
    filled(book, 1)
    assert sent(book) == [(2, False), (3, False)], "numbers go on"
    assert book.rewind(1)


def test_what_was_dropped_unsent_is_a_gap_too() -> None:
    book = filled(journal(), 2)
    sent(book)
    filled(book, 2)
    book.drop()
    filled(book, 1)
    assert not book.rewind(2), "everything that was sent was seen, and still something is missing"
    book.restart(snapshot())
    assert book.rewind(2)
    assert sent(book) == [(3, False)]
