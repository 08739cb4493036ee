"""The `hear` stage's own logic, with a recogniser that counts beeps: what is decoded when, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from duplex.connector.payload import Kind, Mark, MarkKind, Pcm, Transcript
from duplex.errors import StageError
from duplex.models.moonshine.recognizer import Heard, Moonshine, never
from duplex.models.voice.hear import HearWorker
from tests.models.speech import RATE_HZ, Said

BEEP_S = 0.3
PERIOD_S = 0.5


def beeps(count: int) -> NDArray[np.int16]:
    """Each beep is 300 ms, and 200 ms of silence follow."""
    beep = np.round(9000 * np.sin(np.arange(round(BEEP_S * RATE_HZ)) * 0.4))
    return np.tile(np.concatenate((beep, np.zeros(round((PERIOD_S - BEEP_S) * RATE_HZ)))), count).astype(np.int16)


def silence(length_s: float) -> NDArray[np.int16]:
    return np.zeros(round(length_s * RATE_HZ), dtype=np.int16)


class BeepCounter(Moonshine):
    """Hears `beep` for each whole beep, and remembers what it was asked."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.drafts: list[tuple[int, ...]] = []
        self.during: Callable[[], None] = lambda: None

    def hear(
        self, samples: NDArray[np.int16], *, draft: Sequence[int] = (), stop: Callable[[], bool] = never
    ) -> Heard | None:
        self.lengths.append(len(samples))
        self.drafts.append(tuple(draft))
        self.during()
        if stop():
            return None
        frames = np.abs(samples[: len(samples) // 160 * 160]).reshape(-1, 160).max(axis=1) > 1000
        edges = np.flatnonzero(np.diff(np.concatenate(([0], frames.astype(int), [0]))))
        whole = [end - begin for begin, end in zip(edges[::2], edges[1::2], strict=True) if end - begin >= 29]
        return Heard(text=" ".join(["beep"] * len(whole)), tokens=tuple(range(len(whole))))


class Turn:
    """A worker, what it said, and its audio so far."""

    def __init__(self) -> None:
        self.recognizer = BeepCounter()
        self.worker = HearWorker(stage="hear", recognizer=self.recognizer)
        self.said = Said()
        self.end = 0

    def feed(self, audio: NDArray[np.int16], *, chunk: int = 1600, idle: bool = False) -> None:
        for offset in range(0, len(audio), chunk):
            piece = audio[offset : offset + chunk]
            self.worker.feed(Pcm(samples=piece, rate_hz=RATE_HZ, start=self.end), self.said)
            self.end += len(piece)
            if idle:
                self.worker.idle(self.said, lambda kind: False)

    def mark(self, mark: MarkKind, end: int, start: int = 0) -> None:
        self.worker.feed(Mark(mark=mark, start=start, end=end), self.said)

    @property
    def transcripts(self) -> list[tuple[int, int, bool]]:
        """Of each transcript: beeps heard, end, final."""
        found = [each for each in self.said.payloads if isinstance(each, Transcript)]
        assert len(found) == len(self.said.payloads)
        counts = [each.text.count("beep") for each in found]
        assert [each.text for each in found] == [" ".join(["beep"] * count) for count in counts]
        return [(count, each.end, each.final) for count, each in zip(counts, found, strict=True)]


def test_an_end_after_its_pause_decodes_nothing_again() -> None:
    turn = Turn()
    turn.feed(beeps(3))
    turn.feed(silence(0.2))
    end = round(1.3 * RATE_HZ)
    turn.mark(MarkKind.PAUSE, end)
    assert turn.transcripts == [(3, end, False)]
    turn.feed(silence(0.5))
    turn.mark(MarkKind.END, end)
    assert turn.transcripts == [(3, end, False), (3, end, True)]
    assert len(turn.recognizer.lengths) == 1


def test_an_end_later_than_the_pause_decodes_what_was_said_since() -> None:
    turn = Turn()
    turn.feed(beeps(2))
    turn.mark(MarkKind.PAUSE, turn.end)
    turn.feed(beeps(2))
    turn.mark(MarkKind.END, turn.end)
    assert turn.transcripts[-1] == (4, turn.end, True)
    assert len(turn.recognizer.lengths) == 2


def test_an_end_of_another_turn_start_is_decoded_anew() -> None:
    turn = Turn()
    turn.feed(beeps(4))
    turn.mark(MarkKind.PAUSE, turn.end, start=0)
    turn.mark(MarkKind.END, turn.end, start=RATE_HZ)
    assert turn.transcripts[-1] == (2, turn.end, True)


def test_a_pause_repeated_is_decoded_once() -> None:
    turn = Turn()
    turn.feed(beeps(2))
    turn.mark(MarkKind.PAUSE, turn.end)
    turn.mark(MarkKind.PAUSE, turn.end)
    assert len(turn.recognizer.lengths) == 1


def test_only_the_marked_stretch_is_heard() -> None:
    turn = Turn()
    turn.feed(beeps(6))
    turn.mark(MarkKind.END, end=2 * RATE_HZ, start=RATE_HZ)
    assert turn.transcripts == [(2, 2 * RATE_HZ, True)]


def test_a_little_after_the_mark_still_belongs_to_the_last_word() -> None:
    turn = Turn()
    turn.feed(beeps(2))
    end = round(0.75 * RATE_HZ)
    turn.mark(MarkKind.END, end)
    assert turn.transcripts == [(2, end, True)]


def test_a_commit_without_marks_hears_everything_and_trims_silence() -> None:
    turn = Turn()
    turn.feed(np.concatenate((silence(3.0), beeps(2), silence(4.0))))
    turn.worker.finish(turn.said)
    assert turn.transcripts[-1] == (2, turn.end, True)
    assert turn.recognizer.lengths[0] < 1.3 * RATE_HZ


@pytest.mark.parametrize("length_s", [0.0, 1.0, 45.0])
def test_silence_is_heard_as_nothing_and_never_decoded(length_s: float) -> None:
    turn = Turn()
    turn.feed(silence(length_s), idle=True)
    turn.worker.finish(turn.said)
    progress = [(0, 5 * RATE_HZ * each, False) for each in range(1, 1 + int(length_s / 5))]
    assert turn.transcripts == [*progress, (0, turn.end, True)], "how far it has come is said every 5 s"
    assert turn.recognizer.lengths == []


def test_the_final_transcript_is_the_last_word() -> None:
    turn = Turn()
    turn.feed(beeps(2))
    turn.mark(MarkKind.END, turn.end)
    turn.feed(beeps(4), idle=True)
    turn.mark(MarkKind.PAUSE, turn.end)
    turn.mark(MarkKind.END, turn.end)
    turn.worker.finish(turn.said)
    assert [final for _, _, final in turn.transcripts] == [True]


@pytest.mark.parametrize("chunk", [1600, 70 * RATE_HZ])
@pytest.mark.parametrize("idle", [False, True])
def test_a_long_turn_loses_no_word_and_stays_bounded(chunk: int, idle: bool) -> None:
    turn = Turn()
    turn.feed(beeps(140), chunk=chunk, idle=idle)
    assert turn.end == 70 * RATE_HZ
    decoded = len(turn.recognizer.lengths)
    turn.mark(MarkKind.END, turn.end)
    assert turn.transcripts[-1] == (140, turn.end, True)
    assert max(turn.recognizer.lengths) <= 21 * RATE_HZ
    assert len(turn.recognizer.lengths) == decoded + 1
    if not idle:
        assert decoded <= 5
        assert not any(turn.recognizer.drafts), "the words of one segment are no draft of the next"


def test_a_pause_before_a_settled_segment_is_not_taken_for_the_end() -> None:
    turn = Turn()
    turn.feed(beeps(39))
    turn.mark(MarkKind.PAUSE, turn.end)
    pause = turn.end
    turn.feed(beeps(4))
    turn.mark(MarkKind.END, pause)
    assert turn.transcripts[-1] == (39, pause, True)


def test_words_are_shown_twice_a_second_and_draft_the_next_decode() -> None:
    turn = Turn()
    turn.feed(beeps(10), idle=True)
    assert [count for count, _, _ in turn.transcripts] == list(range(1, 11))
    assert not any(final for _, _, final in turn.transcripts)
    turn.mark(MarkKind.END, turn.end)
    assert turn.recognizer.drafts[-1] == tuple(range(9))


def test_a_partial_gives_way_to_a_mark() -> None:
    turn = Turn()
    turn.feed(beeps(4))
    asked: list[Kind] = []

    def waiting(kind: Kind) -> bool:
        asked.append(kind)
        return kind is Kind.MARK

    turn.worker.idle(turn.said, waiting)
    assert turn.transcripts == []
    assert set(asked) == {Kind.MARK}
    turn.mark(MarkKind.END, turn.end)
    assert turn.transcripts == [(4, turn.end, True)]


def test_cancel_stops_a_decode_and_nothing_is_said() -> None:
    turn = Turn()
    turn.feed(beeps(4))
    turn.recognizer.during = turn.worker.cancel
    turn.mark(MarkKind.PAUSE, turn.end)
    turn.worker.close()
    assert turn.transcripts == []


def test_refuses_another_rate() -> None:
    with pytest.raises(StageError, match="16000 Hz"):
        Turn().worker.feed(Pcm(samples=beeps(1), rate_hz=24_000), Said())
