"""Loudness: where speech ends, and what a turn's end makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.connector.payload import Completeness, EndOfTurn, Speech
from duplex.session.detector import Ask, End, Onset, Pause, Resume, Signal, TurnDetector
from duplex.session.loudness import LAG_MS, QUIET_MS, Loudness
from duplex.session.policy import DetectorPolicy

HZ = 16_000
W = 512
LOUD, FAINT, ROOM = -20.0, -48.0, -70.0


def heard(*windows: tuple[float, ...], voice: bool = True) -> Loudness:
    loudness = Loudness(hz=HZ)
    for number, levels in enumerate(windows, 1):
        loudness.hear(levels, end=number * W, window=W, voice=voice)
    return loudness


def test_speech_ends_where_it_was_last_loud() -> None:
    loudness = heard((LOUD,) * 4, (LOUD, LOUD, FAINT, FAINT), (FAINT,) * 4)
    assert loudness.end_of(3 * W) == W + W // 2


def test_a_detector_is_never_told_that_speech_ended_much_earlier_or_later_than_it_saw() -> None:
    loudness = heard((LOUD,) * 4, *[(FAINT,) * 4] * 6)
    assert loudness.end_of(7 * W) == 7 * W - LAG_MS * HZ // 1000
    assert heard((LOUD,) * 4, (LOUD,) * 4).end_of(W) == W


def test_without_levels_it_says_nothing() -> None:
    loudness = heard((), ())
    assert not loudness.quiet
    assert not loudness.rising
    assert loudness.end_of(2 * W) == 2 * W


def test_it_is_quiet_after_a_while_and_not_in_the_closure_of_a_consonant() -> None:
    assert not heard((LOUD,) * 4, (FAINT,) * 4).quiet, f"{32} of {QUIET_MS} ms"
    assert heard((LOUD,) * 4, (FAINT,) * 4, (FAINT,) * 4).quiet


def test_noise_as_loud_as_speech_is_never_quiet() -> None:
    loudness = Loudness(hz=HZ)
    for _ in range(100):
        loudness.room((-30.0,) * 4, window=W)
    for number in range(1, 20):
        loudness.hear((LOUD if number < 10 else -30.0,) * 4, end=number * W, window=W, voice=number < 10)
    assert not loudness.quiet
    assert loudness.end_of(9 * W) == 9 * W


def test_a_noisy_room_is_quieter_than_speech() -> None:
    """-45 dBFS would be speech in a silent room."""
    loudness = Loudness(hz=HZ)
    for _ in range(100):
        loudness.room((-52.0,) * 4, window=W)
    for number in range(1, 6):
        loudness.hear((LOUD if number < 3 else -44.0,) * 4, end=number * W, window=W, voice=True)
    assert loudness.quiet
    assert loudness.end_of(5 * W) == 2 * W


def test_a_sentence_may_begin_aloud_and_end_softly() -> None:
    soft = LOUD - 24.0
    loudness = heard((-12.0,) * 4, *[(LOUD,) * 4] * 40, *[(soft,) * 4] * 10)
    assert not loudness.quiet


def test_who_goes_on_softly_after_a_pause_goes_on() -> None:
    detector = TurnDetector(DetectorPolicy(), hz=HZ)
    said: list[Signal] = []
    sound = [(0.9, LOUD)] * 10 + [(0.1, ROOM)] * 6 + [(0.9, LOUD - 28.0)] * 60
    for number, (probability, level) in enumerate(sound):
        report = Speech(start=number * W, window=W, probabilities=(probability,), levels=(level,) * 4)
        said += detector.hear(report)
        for signal in said[-1:]:
            if isinstance(signal, Ask):
                said += detector.answer(EndOfTurn(end=signal.end, probability=0.05))
    assert [type(signal) for signal in said if not isinstance(signal, Ask)][:3] == [Onset, Pause, Resume]
    assert not any(isinstance(signal, End) for signal in said), "nothing of it is lost"


def test_what_becomes_loud_again_may_be_a_word_and_after_a_while_is_noise() -> None:
    loudness = heard((LOUD,) * 4, *[(FAINT,) * 4] * 4)
    rising = []
    for number in range(6, 12):
        loudness.hear((LOUD,) * 4, end=number * W, window=W, voice=False)
        rising.append(loudness.rising)
    assert rising == [True, True, True, False, False, False]
    assert loudness.end_of(W) == W


def run(detector: TurnDetector, at: int, probability: float, level: float) -> list[Signal]:
    speech = Speech(start=at, window=W, probabilities=(probability,), levels=(level,) * 4)
    signals = detector.hear(speech)
    for signal in [*signals]:
        if isinstance(signal, Pause):
            signals += detector.judge(Completeness(probability=0.95))
        if isinstance(signal, Ask):
            signals += detector.answer(EndOfTurn(end=signal.end, probability=0.99))
    return signals


def test_a_turn_ends_by_its_loudness_before_the_detector_has_let_go() -> None:
    """The detector takes 96 ms of silence for speech; the turn ends 256 ms after the last loud frame all the same."""
    detector = TurnDetector(DetectorPolicy(), hz=HZ)
    at, ended = 0, None
    for probability, level in [(0.9, LOUD)] * 10 + [(0.9, FAINT)] * 3 + [(0.1, FAINT)] * 30:
        if any(isinstance(signal, End) for signal in run(detector, at, probability, level)):
            ended = at + W
            break
        at += W
    assert ended == 18 * W


def test_a_turn_does_not_end_while_a_word_begins() -> None:
    detector = TurnDetector(DetectorPolicy(), hz=HZ)
    said: list[Signal] = []
    sound = [(0.9, LOUD)] * 10 + [(0.1, FAINT)] * 7 + [(0.2, LOUD)] * 2 + [(0.9, LOUD)] * 2
    for number, (probability, level) in enumerate(sound):
        said += run(detector, number * W, probability, level)
    assert not any(isinstance(signal, End) for signal in said)
    assert any(isinstance(signal, Resume) for signal in said)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.4, 0.9]), st.floats(-90, 0), st.booleans()),
        min_size=1,
        max_size=120,
    )
)
def test_signals_come_in_order_whatever_it_sounds_like(windows: list[tuple[float, float, bool]]) -> None:
    detector = TurnDetector(DetectorPolicy(), hz=HZ)
    paused = False
    for number, (probability, level, measured) in enumerate(windows):
        levels = (level,) * 4 if measured else ()
        for signal in detector.hear(Speech(start=number * W, window=W, probabilities=(probability,), levels=levels)):
            match signal:
                case Pause(start=start, end=end):
                    assert not paused
                    assert start <= end <= (number + 1) * W
                    paused = True
                case Resume():
                    assert paused
                    paused = False
                case End(start=start, end=end):
                    assert start <= end <= (number + 1) * W
                    paused = False
                case _:
                    pass


@pytest.mark.parametrize("windows", [1, 3])
def test_levels_of_stale_windows_go_with_them(windows: int) -> None:
    """What is told in one report counts as if it had been told window by window."""
    sound = [(0.9, LOUD)] * 10 + [(0.1, FAINT)] * 6
    ends = []
    for size in (1, windows):
        detector = TurnDetector(DetectorPolicy(silence_ms=160), hz=HZ)
        for start in range(0, len(sound), size):
            piece = sound[start : start + size]
            levels = tuple(level for _, level in piece for _ in range(4))
            report = Speech(start=start * W, window=W, probabilities=tuple(p for p, _ in piece), levels=levels)
            ends += [signal for signal in detector.hear(report) if isinstance(signal, End)]
    assert len(set(ends)) == 1
