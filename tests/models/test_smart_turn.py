"""End of turn: our features against the reference's, the model's judgement, and the stage that answers questions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from duplex.connector.payload import EndOfTurn, Mark, MarkKind, Pcm
from duplex.engine.base import StageRequest
from duplex.errors import ModelStoreError, StageError, StateError
from duplex.models.smart_turn.detector import SmartTurn
from duplex.models.smart_turn.features import FRAMES, SAMPLES, log_mel
from duplex.models.voice.endpoint import EndpointStage, EndpointWorker
from duplex.session.fence import Fence
from tests.models.speech import RATE_HZ, ModelPath, Said, Speaker, human

GOLDEN = Path(__file__).parent / "smart_turn_features.npz"
LENGTHS = (0, 100, 20_000, 127_900, 128_000, 150_000)
STEP = 16
REQUEST = StageRequest(fence=Fence("s", 1, "input", 0), stage="endpoint")


def chirps(length: int) -> NDArray[np.int16]:
    """Four rising tones that beat and fade; a formula, so that it is the same everywhere."""
    t = np.arange(length) / RATE_HZ
    audio = sum(
        np.sin(2 * np.pi * (base * t + slope * t**2)) * (1 + np.sin(2 * np.pi * (k + 1.3) * t))
        for k, (base, slope) in enumerate([(120, 30), (400, 90), (1500, -60), (5200, 110)])
    )
    return np.round(2500 * np.asarray(audio) * np.exp(-t / 9)).astype(np.int16)


@pytest.mark.parametrize("length", LENGTHS)
def test_features_are_those_of_the_reference(length: int) -> None:
    """Every 16th frame of `compute_whisper_log_mel_features` in pipecat-ai 1.14.0, given left-padded audio."""
    with np.load(GOLDEN) as golden:
        expected = golden[str(length)]
    features = log_mel(chirps(length))
    assert features.shape == (80, FRAMES)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features[:, ::STEP], expected, atol=5e-5)


@pytest.mark.parametrize(
    "length", [1, 159, 160, 199, 200, 201, 360, 100_000, SAMPLES - 201, SAMPLES - 200, SAMPLES - 1]
)
def test_the_short_cut_for_padding_changes_nothing(length: int) -> None:
    """The same turn with its silence written out goes the long way."""
    turn = chirps(length)
    written_out = np.concatenate((np.zeros(SAMPLES - length, dtype=np.int16), turn))
    np.testing.assert_allclose(log_mel(turn), log_mel(written_out), atol=5e-5)


def test_only_the_last_eight_seconds_count() -> None:
    turn = chirps(200_000)
    np.testing.assert_array_equal(log_mel(turn), log_mel(turn[-SAMPLES:]))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    for wrong in (path, tmp_path / "absent.onnx"):
        with pytest.raises(ModelStoreError, match="duplex models verify"):
            SmartTurn(wrong)


def test_a_stage_that_is_not_loaded_makes_no_worker(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="before it was loaded"):
        EndpointStage(detector=tmp_path / "absent.onnx")(REQUEST)


class Recorder(SmartTurn):
    """Stands for the model where only the audio that it gets is of interest."""

    def __init__(self) -> None:
        self.asked: list[NDArray[np.int16]] = []

    def probability(self, samples: NDArray[np.int16]) -> float:
        self.asked.append(samples)
        return 0.25


def test_the_stage_asks_about_the_turn_and_no_more_than_eight_seconds_of_it() -> None:
    recorder, said = Recorder(), Said()
    worker = EndpointWorker(stage="endpoint", detector=recorder)
    audio = (np.arange(15 * RATE_HZ) % 30_011).astype(np.int16)
    for start in range(0, len(audio), 1000):
        worker.feed(Pcm(samples=audio[start : start + 1000], rate_hz=RATE_HZ, start=start), said)
    for mark, start, end in [
        (MarkKind.ASK, 200_000, 236_000),
        (MarkKind.PAUSE, 200_000, 236_000),
        (MarkKind.ASK, 0, 236_000),
        (MarkKind.ASK, 0, 81_000),
    ]:
        worker.feed(Mark(mark=mark, start=start, end=end), said)
    assert said.payloads == [EndOfTurn(end=end, probability=0.25) for end in (236_000, 236_000, 81_000)]
    expected = [audio[200_000:236_000], audio[108_000:236_000], audio[80_000:81_000]]
    for asked, wanted in zip(recorder.asked, expected, strict=True):
        np.testing.assert_array_equal(asked, wanted)


def test_the_stage_refuses_another_rate() -> None:
    worker = EndpointWorker(stage="endpoint", detector=Recorder())
    with pytest.raises(StageError, match="16000 Hz"):
        worker.feed(Pcm(samples=np.zeros(10, dtype=np.int16), rate_hz=24_000), lambda p: True)


@pytest.mark.models
def test_hears_a_complete_turn_and_one_that_breaks_off(model_path: ModelPath) -> None:
    detector = SmartTurn(model_path("smart_turn/end_of_turn.onnx"))
    speaker = Speaker(model_path)
    pause = speaker.silence(0.2)
    complete = ["Please turn off the kitchen lights and lock the front door.", "What is the capital of France?", "Yes."]
    for text in complete:
        assert detector.probability(np.concatenate((speaker.say(text), pause))) > 0.5, text
    begun = speaker.say("I would like to book a table for four people at eight.")[:RATE_HZ]
    assert detector.probability(np.concatenate((begun, pause))) < 0.2


@pytest.mark.models
def test_the_stage_runs_the_real_model(model_path: ModelPath) -> None:
    stage = EndpointStage(detector=model_path("smart_turn/end_of_turn.onnx"))
    stage.load()
    worker = stage(REQUEST)
    audio = human(model_path)
    said = Said()
    worker.feed(Pcm(samples=audio, rate_hz=RATE_HZ), said)
    worker.feed(Mark(mark=MarkKind.ASK, start=0, end=len(audio)), said)
    worker.finish(said)
    worker.close()
    (answer,) = said.payloads
    assert isinstance(answer, EndOfTurn)
    assert answer.probability > 0.5
