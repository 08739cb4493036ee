"""Voice activity: chunk sizes do not matter, sessions do not mix, positions stay true, speech is found."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from duplex.connector.payload import Pcm, Speech
from duplex.engine.base import StageRequest
from duplex.engine.worker import Worker
from duplex.errors import StageError
from duplex.models.silero.vad import WINDOW, SileroVad
from duplex.models.voice.listen import ListenStage
from duplex.session.fence import Fence
from tests.models.speech import RATE_HZ, ModelPath, Said, Speaker, human

pytestmark = pytest.mark.models


@pytest.fixture
def vad(model_path: ModelPath) -> SileroVad:
    return SileroVad(model_path("silero/vad.onnx"))


@pytest.fixture
def worker(model_path: ModelPath) -> Worker:
    stage = ListenStage(vad=model_path("silero/vad.onnx"))
    stage.load()
    return stage(StageRequest(fence=Fence("s", 1, "input", 0), stage="listen"))


def pcm(samples: NDArray[np.int16], start: int) -> Pcm:
    return Pcm(samples=samples, rate_hz=RATE_HZ, start=start)


@pytest.mark.parametrize("chunk", [1, 160, 511, 512, 513, 4800])
def test_probabilities_do_not_depend_on_the_size_of_chunks(vad: SileroVad, model_path: ModelPath, chunk: int) -> None:
    audio = human(model_path)[: 4 * WINDOW + 100] if chunk == 1 else human(model_path)[: RATE_HZ + 100]
    expected = vad.stream().feed(audio)
    stream = vad.stream()
    found: list[float] = []
    for start in range(0, len(audio), chunk):
        found.extend(stream.feed(audio[start : start + chunk]))
    assert len(found) == len(audio) // WINDOW
    assert found == pytest.approx(expected, abs=1e-6)
    assert stream.pending == len(audio) % WINDOW


def test_carries_state_and_context_as_the_model_wants_them(vad: SileroVad, model_path: ModelPath) -> None:
    """Against the model's own recipe, written out: 64 samples of context before each 512, the state handed on."""
    session = ort.InferenceSession(str(model_path("silero/vad.onnx")), providers=["CPUExecutionProvider"])
    audio = human(model_path)[: 3 * RATE_HZ]
    padded = np.concatenate((np.zeros(64), audio / 32768)).astype(np.float32)
    state, expected = np.zeros((2, 1, 128), dtype=np.float32), []
    for start in range(0, len(audio) - WINDOW + 1, WINDOW):
        frame = padded[None, start : start + 64 + WINDOW]
        probability, state = session.run(None, {"input": frame, "state": state, "sr": np.array(RATE_HZ)})
        expected.append(probability[0, 0])
    assert vad.stream().feed(audio) == pytest.approx(expected, abs=1e-5)


def test_sessions_do_not_mix(vad: SileroVad, model_path: ModelPath) -> None:
    audio, quiet = human(model_path)[: 2 * RATE_HZ], np.zeros(2 * RATE_HZ, dtype=np.int16)
    alone = vad.stream().feed(audio)
    spoken, silent = vad.stream(), vad.stream()
    together: list[float] = []
    for start in range(0, len(audio), 800):
        silent.feed(quiet[start : start + 800])
        together.extend(spoken.feed(audio[start : start + 800]))
    assert together == pytest.approx(alone, abs=1e-6)


def test_finds_where_speech_begins_and_ends(vad: SileroVad, model_path: ModelPath) -> None:
    speaker = Speaker(model_path)
    said = speaker.say("Please turn off the kitchen lights.")
    loud = np.flatnonzero(np.abs(said) > 600)
    audio = np.concatenate((speaker.silence(1.0), said, speaker.silence(1.0)))
    speech = np.flatnonzero(np.array(vad.stream().feed(audio)) > 0.5)
    begin_s, end_s = speech[0] * WINDOW / RATE_HZ, (speech[-1] + 1) * WINDOW / RATE_HZ
    assert begin_s == pytest.approx(1.0 + loud[0] / RATE_HZ, abs=0.12)
    assert end_s == pytest.approx(1.0 + loud[-1] / RATE_HZ, abs=0.2)


def test_noise_and_silence_are_not_speech(vad: SileroVad) -> None:
    noise = np.random.default_rng(0).normal(0, 300, 3 * RATE_HZ).astype(np.int16)
    assert max(vad.stream().feed(noise)) < 0.5
    assert max(vad.stream().feed(np.zeros(3 * RATE_HZ, dtype=np.int16))) < 0.1


def test_the_stage_names_each_window_by_its_position(worker: Worker, vad: SileroVad, model_path: ModelPath) -> None:
    audio = human(model_path)[:8000]
    said = Said()
    for start in range(0, len(audio), 700):
        worker.feed(pcm(audio[start : start + 700], 1000 + start), said)
    position, found = 1000, list[float]()
    for speech in said.payloads:
        assert isinstance(speech, Speech)
        assert (speech.start, speech.window) == (position, WINDOW)
        position += WINDOW * len(speech.probabilities)
        found.extend(speech.probabilities)
    assert found == pytest.approx(vad.stream().feed(audio), abs=1e-6)
    worker.finish(said)
    worker.close()


def test_positions_stay_true_across_a_gap(worker: Worker) -> None:
    said = Said()
    quiet = np.zeros(700, dtype=np.int16)
    for start in (0, 700, 5000):
        worker.feed(pcm(quiet, start), said)
    assert [speech.start for speech in said.payloads if isinstance(speech, Speech)] == [0, 512, 5000]


def test_the_stage_refuses_another_rate(worker: Worker) -> None:
    with pytest.raises(StageError, match="16000 Hz"):
        worker.feed(Pcm(samples=np.zeros(10, dtype=np.int16), rate_hz=48_000), lambda p: True)
