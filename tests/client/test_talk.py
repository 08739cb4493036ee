"""`duplex talk` against a small server of the same protocol, in real time."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duplex.audio.pcm import last_audible
from duplex.audio.resample import resample
from duplex.audio.wav import read_wav, write_wav
from duplex.client.realtime import realtime_url
from duplex.client.talk import _talk, add_arguments, load, main, turn_detection
from duplex.errors import TalkError
from tests.client.double import Double, Script, running, tone

live = pytest.mark.live


@pytest.fixture
def recording(tmp_path: Path) -> Callable[..., Path]:
    """Writes tones and pauses, in seconds by turns, as a 16 kHz file."""

    def make(*stretches_s: float) -> Path:
        parts = [
            tone(length) if not index % 2 else np.zeros(int(24_000 * length), np.int16)
            for index, length in enumerate(stretches_s)
        ]
        path = tmp_path / "said.wav"
        write_wav(path, resample(np.concatenate(parts), from_hz=24_000, to_hz=16_000), 16_000)
        return path

    return make


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def talk(script: Script, *words: str) -> tuple[int, Double]:
    async def both() -> tuple[int, Double]:
        async with running(script) as double:
            return await _talk(arguments(*words, "--url", double.url)), double

    return asyncio.run(both())


@live
def test_a_turn_is_heard_measured_and_saved(
    recording: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [{"name": "think", "submitted_ms": 0, "first_input_ms": 200, "first_output_ms": 240, "finished_ms": 250}]
    script = Script(turns={"any": {"response_id": "resp_1", "marks": [], "stages": stages}}, leading_silence_s=0.1)
    code, double = talk(script, str(recording(0.4)), "--json", "--out", str(tmp_path / "answer.wav"))
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (report["heard"], report["said"], report["stale_bytes"]) == ("words of item_1", "Beep.", 0)
    assert report["stages"] == stages
    assert len(report["turns"]) == 1
    # 200 ms silence, 50 ms thinking, 100 ms silence sent in two packets of 50 ms each at its time.
    assert 330 <= report["voice_to_voice_ms"] <= 550
    answer, rate_hz = read_wav(tmp_path / "answer.wav")
    assert rate_hz == 24_000
    first = int(np.flatnonzero(np.abs(answer) > 1000)[0]) / rate_hz
    assert first == pytest.approx(0.3 + 0.4 + report["voice_to_ear_ms"] / 1000, abs=0.06)
    sent = np.concatenate(double.audio)
    assert last_audible(sent, 24_000) == pytest.approx(0.7 * 24_000, abs=500)


@live
def test_words_and_waterfall_are_printed(recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = talk(Script(), str(recording(0.3)))
    out = capsys.readouterr().out
    assert code == 0
    assert "you     words of item_1\n" in out
    assert "duplex  Beep.\n" in out
    assert "voice to voice" in out
    assert "> first sound" in out


@live
def test_who_waits_is_told_the_number_and_is_patient_as_long_as_there_is_news(
    recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = talk(Script(queue=(0.4, 0.4, 0.4)), str(recording(0.3)), "--timeout", "1.0")
    printed = capsys.readouterr().out
    assert code == 0
    assert "(number 3 in the queue)" in printed
    assert "(number 1 in the queue, about 12 s to go)" in printed
    with pytest.raises(TalkError, match=r"opened no session within 0\.3 s"):
        talk(Script(queue=(0.8,)), str(recording(0.3)), "--timeout", "0.3")


@live
@pytest.mark.parametrize("stale_packets", [0, 2])
def test_speech_over_an_answer_cuts_it_off(
    recording: Callable[..., Path], capsys: pytest.CaptureFixture[str], stale_packets: int
) -> None:
    script = Script(answer_s=1.5, stale_packets=stale_packets)
    code, double = talk(script, str(recording(0.3, 0.6, 0.3)), "--json")
    report = json.loads(capsys.readouterr().out)
    first, second = report["turns"]
    assert code == 0
    assert (first["interrupted"], first["status"], first["reason"]) == (True, "cancelled", "turn_detected")
    assert first["stale_bytes"] == stale_packets * 2400
    assert report["stale_bytes_of_all_turns"] == stale_packets * 2400
    assert (second["interrupted"], second["status"], second["heard"]) == (False, "completed", "words of item_2")
    truncated = [event for event in double.received if event["type"] == "conversation.item.truncate"]
    assert [event["item_id"] for event in truncated] == ["a_resp_1"]
    assert truncated[0]["audio_end_ms"] == first["played_ms"]
    assert 150 <= first["played_ms"] <= 500


@live
def test_a_turn_that_ends_with_the_file(recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, double = talk(Script(), str(recording(0.3)), "--json", "--turn-detection", "none")
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert report["turn_detection"] is None
    assert report["heard"] == "words of item_manual"
    kinds = [event["type"] for event in double.received if event["type"] != "input_audio_buffer.append"]
    assert kinds == ["session.update", "input_audio_buffer.commit", "response.create"]


@live
def test_no_answer_is_a_failure_with_a_report(
    recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TalkError, match=r"no answer was heard within 0.5 s; is there speech in"):
        talk(Script(answers=False), str(recording(0.3)), "--json", "--timeout", "0.5")
    assert json.loads(capsys.readouterr().out)["answered_turns"] == 0


@live
def test_a_server_that_dies_midway_is_named(recording: Callable[..., Path]) -> None:
    with pytest.raises(TalkError, match="broke off the conversation"):
        talk(Script(die_after_s=0.4), str(recording(1.0)))


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            Script(refuse=(503, "All 4 places are taken.")),
            r"no room or is not ready \(503: All 4 places are taken\); try again in 7 s",
        ),
        (Script(refuse=(404, "No such model.")), r"refused \(404: No such model\); check --url"),
        (Script(api_key="secret"), r"refused \(401: A key is needed\); give its key with --api-key"),
        (Script(first_error="The server is full."), "refused the conversation: The server is full"),
    ],
)
def test_a_refusal_is_one_sentence(recording: Callable[..., Path], script: Script, sentence: str) -> None:
    with pytest.raises(TalkError, match=sentence):
        talk(script, str(recording(0.1)))


@live
def test_a_key_opens(recording: Callable[..., Path]) -> None:
    code, _ = talk(Script(api_key="secret"), str(recording(0.2)), "--api-key", "secret")
    assert code == 0


def test_no_server_is_one_sentence(recording: Callable[..., Path]) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port, and it refuses
        taken.bind(("127.0.0.1", 0))
        url = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TalkError, match=r"no server at ws://.+ \(.+\); start one with `duplex serve`"):
            main(arguments(str(recording(0.1)), "--url", url))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"cannot read .+said\.wav \(No such file or directory\)"),
        (b"not a recording", r"said\.wav is not a PCM WAV file"),
        ("silence", r"nothing in .+ is louder than -40 dBFS"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, content: bytes | str | None, sentence: str) -> None:
    path = tmp_path / "said.wav"
    if content == "silence":
        write_wav(path, np.zeros(8000, np.int16), 16_000)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(TalkError, match=sentence):
        load(path)


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        ("ws://h:1/v1/realtime", "ws://h:1/v1/realtime?model=duplex"),
        ("http://h:1", "ws://h:1/v1/realtime?model=duplex"),
        ("https://h/", "wss://h/v1/realtime?model=duplex"),
        ("ws://h/x?model=m&a=b", "ws://h/x?model=m&a=b"),
    ],
)
def test_addresses_are_completed(given: str, complete: str) -> None:
    assert realtime_url(given) == complete


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://h/", "ws://"])
def test_what_is_no_address_is_named(url: str) -> None:
    with pytest.raises(TalkError, match="is not the address of a server"):
        realtime_url(url)


@pytest.mark.parametrize(
    ("text", "detection"),
    [
        ("server_vad", {"type": "server_vad"}),
        ("none", None),
        ('{"type": "server_vad", "silence_duration_ms": 300}', {"type": "server_vad", "silence_duration_ms": 300}),
    ],
)
def test_turn_detection_as_an_argument(text: str, detection: dict[str, Any] | None) -> None:
    assert turn_detection(text) == {"audio": {"input": {"turn_detection": detection}}}
    assert turn_detection(None) is None


@pytest.mark.parametrize("text", ["fast", "[1]", "{"])
def test_a_wrong_turn_detection_is_named(text: str) -> None:
    with pytest.raises(TalkError, match="--turn-detection takes server_vad"):
        turn_detection(text)
