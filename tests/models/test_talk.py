"""The `talk` and `code2wav` stages: clauses, positions, chunks; and real speech that a recogniser understands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jiwer
import numpy as np
import pytest

from duplex.audio.pcm import first_audible
from duplex.audio.resample import resample
from duplex.connector.payload import Payload, Spectrum, Text, Voiced
from duplex.engine.base import StageOptions, StageRequest
from duplex.errors import StageError, StateError
from duplex.models.hibari.acoustic import Acoustic, Frames
from duplex.models.hibari.phonemes import Phonemizer
from duplex.models.hibari.vocoder import HOP, RATE_HZ
from duplex.models.moonshine.recognizer import Moonshine
from duplex.models.voice.code2wav import Code2WavStage
from duplex.models.voice.talk import TalkStage, TalkWorker
from duplex.session.fence import MAIN, Fence

FENCE = Fence("s", 1, MAIN, 1)
LEAD, TAIL = 10, 60


class Hum(Acoustic):
    """Hums for five frames a symbol, between silences."""

    def __init__(self) -> None:
        self.speeds: list[float] = []

    def __call__(self, symbols: Sequence[int], *, speed: float) -> Frames:
        self.speeds.append(speed)
        count = 5 * len(symbols)
        shape = ((0, 0), (LEAD, TAIL))
        parts = tuple(np.pad(np.full((601, count), -4, np.float32), shape, constant_values=-20) for _ in range(5))
        return Frames(parts=parts, f0=np.pad(np.full(count, 120, np.float32), (LEAD, TAIL)))


@pytest.fixture(scope="module")
def phonemizer() -> Phonemizer:
    return Phonemizer()


class Talk:
    """A `talk` worker and a `code2wav` worker behind it."""

    def __init__(self, phonemizer: Phonemizer, *, speed: float = 1.0) -> None:
        self.hum = Hum()
        self.worker = TalkWorker(stage="talk", phonemizer=phonemizer, acoustic=self.hum, speed=speed)
        self.wave = Code2WavStage()(StageRequest(fence=FENCE, stage="code2wav"))
        self.spectra: list[Spectrum] = []
        self.voiced: list[Voiced] = []
        self.sent = 0

    def spectrum(self, payload: Payload) -> bool:
        assert isinstance(payload, Spectrum)
        self.spectra.append(payload)
        self.wave.feed(payload, self.audio)
        return True

    def audio(self, payload: Payload) -> bool:
        assert isinstance(payload, Voiced)
        self.voiced.append(payload)
        return True

    def say(self, text: str) -> None:
        self.worker.feed(Text(text=text, start=self.sent), self.spectrum)
        self.sent += len(text)

    def finish(self) -> None:
        self.worker.finish(self.spectrum)
        self.wave.finish(self.audio)

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(spectrum.text_start, spectrum.text_end) for spectrum in self.spectra]


def test_a_clause_is_spoken_as_soon_as_it_is_complete(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    talk.say("Well sure,")
    assert not talk.spectra
    talk.say(" I")
    assert talk.spans == [(0, 10)]
    talk.say(" do. Next")
    assert talk.spans == [(0, 10), (10, 16)]
    talk.finish()
    assert talk.spans == [(0, 10), (10, 16), (16, 21)]


def test_the_last_audio_of_an_answer_has_all_its_text(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    text = "Well sure, I can help. What is it? Tell me more, please."
    for piece in re.findall(r"\s*\S+", text):
        talk.say(piece)
    talk.finish()
    ends = [chunk.text_end for chunk in talk.voiced]
    assert ends == sorted(ends)
    assert ends[-1] == len(text)
    spoken = [end for _, end in talk.spans]
    assert set(spoken) <= set(ends)


def test_text_with_nothing_to_say_joins_the_next_clause(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    talk.say("😀 — 你好。世界。 Hello there. 😀")
    talk.finish()
    assert talk.spans == [(0, 23)]


@pytest.mark.parametrize("text", ["", "😀", "你好世界。\n\n---\n", "\x00\x07\u200d…"])
def test_an_answer_with_nothing_to_say_is_no_failure(phonemizer: Phonemizer, text: str) -> None:
    talk = Talk(phonemizer)
    talk.say(text)
    talk.finish()
    assert not talk.voiced


def test_a_clause_too_long_for_the_network_is_spoken_in_parts(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    text = "987654321098 " * 16
    talk.say(text)
    talk.finish()
    assert len(talk.spans) > 2
    starts, ends = zip(*talk.spans, strict=True)
    assert starts == (0, *ends[:-1])
    assert ends[-1] == len(text)


def test_pauses_are_those_of_the_mark(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    talk.say("Well sure, I do. One two three four five six seven eight nine ten eleven twelve thirteen. Bye")
    talk.finish()
    hums = [int((spectrum.f0 > 0).sum()) for spectrum in talk.spectra]
    pauses = [len(spectrum.f0) - hum - 1 for spectrum, hum in zip(talk.spectra, hums, strict=True)]
    assert pauses == [8, 28, 28, 8]


def test_speed_is_passed_on_and_shortens_pauses(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer, speed=2.0)
    talk.say("Well sure, I")
    assert talk.hum.speeds == [2.0]
    assert len(talk.spectra[0].f0) - int((talk.spectra[0].f0 > 0).sum()) == 1 + 4


def test_an_impossible_speed_is_refused(phonemizer: Phonemizer) -> None:
    with pytest.raises(StageError, match=r"0\.25 to 4"):
        Talk(phonemizer, speed=0.0)


def test_nothing_more_is_made_once_it_is_not_wanted(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    talk.worker.feed(Text(text="One. Two. Three. Four. Five", start=0), lambda payload: False)
    assert len(talk.hum.speeds) == 1


def test_a_gap_in_the_text_is_a_bug(phonemizer: Phonemizer) -> None:
    talk = Talk(phonemizer)
    talk.say("One")
    with pytest.raises(StateError, match="begins at 3"):
        talk.worker.feed(Text(text="Two", start=4), talk.spectrum)


def test_a_stage_that_was_not_loaded_says_so() -> None:
    with pytest.raises(StateError, match="before it was loaded"):
        TalkStage(acoustic=Path("absent"))(StageRequest(fence=FENCE, stage="talk"))


def clause(frames: int, start: int = 0, end: int = 10) -> Spectrum:
    parts = tuple(np.full((601, frames), -4, np.float32) for _ in range(5))
    return Spectrum(parts=parts, f0=np.full(frames, 120, np.float32), text_start=start, text_end=end)


def voiced(spectra: Sequence[Spectrum], *, fence: Fence = FENCE, stop_after: int = 10_000) -> list[Voiced]:
    worker = Code2WavStage()(StageRequest(fence=fence, stage="code2wav"))
    chunks: list[Voiced] = []

    def emit(payload: Payload) -> bool:
        assert isinstance(payload, Voiced)
        chunks.append(payload)
        return len(chunks) < stop_after

    for spectrum in spectra:
        worker.feed(spectrum, emit)
    worker.finish(emit)
    worker.close()
    return chunks


@pytest.mark.parametrize("frames", [1, 2, 5, 7, 8, 9, 10, 60, 200])
def test_chunks_begin_small_and_grow(frames: int) -> None:
    sizes = [len(chunk.samples) for chunk in voiced([clause(frames)])]
    assert sum(sizes) == frames * HOP
    assert sizes[0] <= 0.09 * RATE_HZ
    assert max(sizes) <= 0.3 * RATE_HZ
    if frames == 200:
        assert sizes[:4] == [2100, 3000, 4200, 6000]
        assert min(sizes) >= 2100


def test_only_the_turns_first_chunk_is_small() -> None:
    chunks = voiced([clause(100), clause(100, 10, 20)])
    second = next(chunk for chunk in chunks if chunk.text_end > 10)
    assert len(second.samples) == 6000


def test_characters_grow_evenly_and_end_exactly() -> None:
    chunks = voiced([clause(100, 0, 40), clause(50, 40, 45)])
    ends = [chunk.text_end for chunk in chunks]
    assert ends == sorted(ends)
    assert {40, 45} <= set(ends)
    played = np.cumsum([len(chunk.samples) for chunk in chunks])
    for end, samples in zip(ends, played, strict=True):
        if samples <= 100 * HOP:
            assert end == 40 * samples // (100 * HOP)


def test_chunks_are_one_waveform_without_a_step() -> None:
    whole = np.concatenate([chunk.samples for chunk in voiced([clause(60)])]).astype(int)
    steps = np.abs(np.diff(whole))
    borders = np.cumsum([2100, 3000, 4200])
    # A pulse train has steep places everywhere; those at the borders are no steeper.
    assert steps[borders - 1].max() <= np.quantile(steps, 0.999)
    assert whole[0] == 0
    assert abs(whole[-1]) < 0.05 * abs(whole).max()
    assert abs(whole[:5]).max() < 0.2 * abs(whole[:100]).max()


def test_a_turn_sounds_the_same_whenever_it_is_made() -> None:
    same, again = (np.concatenate([chunk.samples for chunk in voiced([clause(30)])]) for _ in range(2))
    other = np.concatenate([chunk.samples for chunk in voiced([clause(30)], fence=FENCE.next())])
    assert np.array_equal(same, again)
    assert not np.array_equal(same, other)


def test_no_more_audio_once_it_is_not_wanted() -> None:
    assert len(voiced([clause(200)], stop_after=2)) == 2


def test_code2wav_takes_spectra_only() -> None:
    worker = Code2WavStage()(StageRequest(fence=FENCE, stage="code2wav"))
    with pytest.raises(StateError):
        worker.feed(Text(text="x", start=0), lambda payload: True)


ANSWERS = [
    "Sure, I can help you with that. Please turn off the kitchen lights, and lock the front door.",
    "Hello there! The weather in Berlin will be sunny tomorrow afternoon.",
    "She sold the old house on the hill that was built by her grandfather many years ago, did she not?",
]


@pytest.mark.models
class TestReal:
    @pytest.fixture(scope="class")
    @classmethod
    def stage(cls, model_path: Callable[[str], Path]) -> TalkStage:
        stage = TalkStage(acoustic=model_path("hibari/acoustic.onnx"))
        stage.load()
        return stage

    def speak(self, stage: TalkStage, text: str, speed: float = 1.0) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
        options = StageOptions(speed=speed)
        worker = stage(StageRequest(fence=FENCE, stage="talk", options=options))
        spectra: list[Spectrum] = []

        def emit(payload: Payload) -> bool:
            assert isinstance(payload, Spectrum)
            spectra.append(payload)
            return True

        start = 0
        for piece in re.findall(r"\s*\S+", text):
            worker.feed(Text(text=piece, start=start), emit)
            start += len(piece)
        worker.finish(emit)
        return np.concatenate([chunk.samples for chunk in voiced(spectra)])

    def test_what_is_said_is_understood(self, stage: TalkStage, model_path: Callable[[str], Path]) -> None:
        recognizer = Moonshine(
            encoder=model_path("moonshine/encoder.ort"),
            decoder=model_path("moonshine/decoder.ort"),
            tokenizer=model_path("moonshine/tokenizer.json"),
        )
        heard = []
        for answer in ANSWERS:
            result = recognizer.hear(resample(self.speak(stage, answer), from_hz=RATE_HZ, to_hz=16_000))
            assert result is not None
            heard.append(_bare(result.text))
        assert jiwer.wer([_bare(answer) for answer in ANSWERS], heard) <= 0.1, heard

    def test_it_is_audible_at_once(self, stage: TalkStage) -> None:
        for answer in ANSWERS:
            first = first_audible(self.speak(stage, answer), RATE_HZ)
            assert first is not None
            assert first <= 0.06 * RATE_HZ

    def test_twice_the_speed_is_half_as_long(self, stage: TalkStage) -> None:
        slow, fast = (len(self.speak(stage, ANSWERS[0], speed)) for speed in (1.0, 2.0))
        assert 1.7 < slow / fast < 2.3


def _bare(text: str) -> str:
    return " ".join(re.findall(r"[a-z']+", text.lower()))
