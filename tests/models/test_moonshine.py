"""Recognition of real speech: a person, sentences spoken by the project's own voice, and a turn through the stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duplex.connector.payload import Mark, MarkKind, Pcm, Transcript
from duplex.engine.base import StageRequest
from duplex.errors import ModelStoreError
from duplex.models.moonshine.recognizer import Moonshine, _before_loop
from duplex.models.voice.hear import HearStage
from duplex.session.fence import Fence
from tests.models.speech import BECKETT, RATE_HZ, SENTENCES, ModelPath, Said, Speaker, human, word_error_rate


@pytest.fixture(scope="module")
def recognizer(model_path: ModelPath) -> Moonshine:
    return Moonshine(
        encoder=model_path("moonshine/encoder.ort"),
        decoder=model_path("moonshine/decoder.ort"),
        tokenizer=model_path("moonshine/tokenizer.json"),
    )


@pytest.fixture(scope="module")
def stage(model_path: ModelPath) -> HearStage:
    stage = HearStage(
        encoder=model_path("moonshine/encoder.ort"),
        decoder=model_path("moonshine/decoder.ort"),
        tokenizer=model_path("moonshine/tokenizer.json"),
    )
    stage.load()
    return stage


@pytest.mark.parametrize(
    ("tokens", "left"),
    [
        ([5, 9, 9, 9], None),
        ([5, 9, 9, 9, 9], 2),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3], None),
        ([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3], 4),
        ([1, 2, 1, 2, 1, 2, 1, 3], None),
        ([], None),
    ],
)
def test_a_loop_is_cut_to_one_round(tokens: list[int], left: int | None) -> None:
    assert _before_loop(tokens) == left


@pytest.mark.models
def test_a_damaged_tokenizer_is_one_sentence_with_the_remedy(model_path: ModelPath, tmp_path: Path) -> None:
    damaged = tmp_path / "tokenizer.json"
    damaged.write_text("{")
    with pytest.raises(ModelStoreError, match="duplex models verify"):
        Moonshine(
            encoder=model_path("moonshine/encoder.ort"), decoder=model_path("moonshine/decoder.ort"), tokenizer=damaged
        )


@pytest.mark.models
def test_hears_a_person(recognizer: Moonshine, model_path: ModelPath) -> None:
    heard = recognizer.hear(human(model_path))
    assert heard is not None
    assert word_error_rate([BECKETT], [heard.text]) <= 0.1


@pytest.mark.models
def test_hears_what_the_project_s_own_voice_says_with_and_without_a_draft(
    recognizer: Moonshine, model_path: ModelPath
) -> None:
    speaker = Speaker(model_path)
    plain, drafted = [], []
    for sentence in SENTENCES:
        audio = speaker.say(sentence)
        begun = recognizer.hear(audio[: len(audio) * 2 // 3])
        whole = recognizer.hear(audio)
        helped = recognizer.hear(audio, draft=begun.tokens if begun else ())
        assert whole is not None
        assert helped is not None
        plain.append(whole.text)
        drafted.append(helped.text)
    assert word_error_rate(SENTENCES, plain) <= 0.1
    assert word_error_rate(SENTENCES, drafted) <= 0.1


@pytest.mark.models
def test_a_wrong_draft_does_no_harm(recognizer: Moonshine, model_path: ModelPath) -> None:
    audio = human(model_path)
    plain = recognizer.hear(audio)
    assert plain is not None
    nonsense = recognizer.hear(audio, draft=(3000, 4000, 5000))
    longer = recognizer.hear(audio, draft=(*plain.tokens, 3000, 4000))
    assert nonsense is not None
    assert longer is not None
    assert word_error_rate([BECKETT, BECKETT], [nonsense.text, longer.text]) <= 0.1


@pytest.mark.models
def test_what_a_draft_got_wrong_is_taken_out_of_the_cache(
    recognizer: Moonshine, model_path: ModelPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = human(model_path)[: 4 * RATE_HZ]
    plain = recognizer.hear(audio)
    assert plain is not None
    lengths: list[int] = []
    run = recognizer._decoder.run

    def spy(feeds: dict[str, Any], outputs: Any = None) -> Any:
        lengths.append(feeds["past_key_values.0.decoder.key"].shape[2])
        return run(feeds, outputs)

    monkeypatch.setattr(recognizer._decoder, "run", spy)
    heard = recognizer.hear(audio, draft=(*plain.tokens[:3], 3000, 4000))
    assert heard is not None
    assert lengths == [0, *range(4, len(heard.tokens) + 1)]


@pytest.mark.models
def test_stops_between_tokens_when_told(recognizer: Moonshine, model_path: ModelPath) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    assert recognizer.hear(human(model_path), stop=stop) is None
    assert asked == 6


@pytest.mark.models
def test_a_tenth_of_a_second_is_heard_without_failure(recognizer: Moonshine) -> None:
    assert recognizer.hear(np.zeros(100, dtype=np.int16)) is not None


@pytest.mark.models
def test_a_turn_is_shown_while_it_is_spoken_and_final_at_its_end(stage: HearStage, model_path: ModelPath) -> None:
    worker = stage(StageRequest(fence=Fence("s", 1, "input", 1), stage="hear"))
    said, audio = Said(), human(model_path)
    for start in range(0, len(audio), 1600):
        worker.feed(Pcm(samples=audio[start : start + 1600], rate_hz=RATE_HZ, start=start), said)
        worker.idle(said, lambda kind: False)  # type: ignore[attr-defined]
    partials = len(said.payloads)
    worker.feed(Mark(mark=MarkKind.PAUSE, start=0, end=len(audio)), said)
    worker.feed(Mark(mark=MarkKind.END, start=0, end=len(audio)), said)
    worker.finish(said)
    worker.close()
    transcripts = [each for each in said.payloads if isinstance(each, Transcript)]
    assert partials >= 4
    assert [each.final for each in transcripts] == [False] * (len(transcripts) - 1) + [True]
    assert word_error_rate([BECKETT], [transcripts[-1].text]) <= 0.1


@pytest.mark.models
def test_half_a_minute_of_speech_is_cut_at_pauses_and_no_word_is_lost(stage: HearStage, model_path: ModelPath) -> None:
    worker = stage(StageRequest(fence=Fence("s", 1, "input", 2), stage="hear"))
    speaker, said = Speaker(model_path), Said()
    pieces = [
        np.concatenate((speaker.say(sentence), speaker.silence(0.4))) for sentence in (*SENTENCES, *SENTENCES[:4])
    ]
    worker.feed(Pcm(samples=np.concatenate(pieces), rate_hz=RATE_HZ), said)
    worker.finish(said)
    worker.close()
    transcripts = [each for each in said.payloads if isinstance(each, Transcript)]
    assert len(transcripts) == len(said.payloads)
    *progress, final = transcripts
    assert final.final
    assert not any(each.final for each in progress)
    assert word_error_rate([" ".join((*SENTENCES, *SENTENCES[:4]))], [final.text]) <= 0.1
