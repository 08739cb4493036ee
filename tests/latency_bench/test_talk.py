"""The benchmark's measurements against a small server whose delays are known."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duplex.client.call import call
from duplex.client.turn import Turn
from latency_bench.__main__ import main
from latency_bench.clips import load
from latency_bench.wire.barge_in import Interruption, interrupt
from latency_bench.wire.talk import Found, _run, add_arguments, rows
from latency_bench.wire.turns import Spoken, speak, was_cut
from tests.client.double import Double, Script, running, tone

live = pytest.mark.live


def stopped(generated_ms: int, sent_ms: int) -> dict[str, Any]:
    marks = [
        {"name": "generated", "ms": 5000, "value_ms": generated_ms},
        {"name": "generated_when_stopped", "ms": 1, "value_ms": generated_ms},
        {"name": "sent_when_stopped", "ms": 1, "value_ms": sent_ms},
    ]
    return {"any": {"response_id": "r", "marks": marks, "stages": []}}


def spoken(script: Script, name: str) -> Spoken:
    async def both() -> list[Spoken]:
        clips = [clip for clip in load() if clip.file == name]
        async with running(script) as double, call(url=double.url) as going:
            return await speak(going, clips, answer_s=0.3, url=double.url, api_key=None)

    return asyncio.run(both())[0]


@live
def test_a_turn_has_a_figure_that_agrees_with_the_servers_delays() -> None:
    one = spoken(Script(silence_s=0.3, think_s=0.1, answer_s=5.0), "dinner.wav")
    assert (one.failure, one.cut) == ("", False)
    assert one.voice_to_voice_ms is not None
    assert 380 <= one.voice_to_voice_ms <= 600
    assert one.wait_ms is not None
    assert 280 <= one.wait_ms <= 450
    assert one.turn.status == "cancelled"
    assert one.turn.stale_bytes == 0


@live
def test_a_turn_that_is_ended_in_a_pause_is_counted_as_cut_and_gives_no_figure() -> None:
    one = spoken(Script(silence_s=0.2, think_s=0.5), "pause_trip.wav")
    assert one.cut
    assert "ended inside the sentence" in one.failure
    assert one.voice_to_voice_ms is None


@live
@pytest.mark.parametrize(
    ("generated_ms", "sent_ms", "stale_packets", "failure"),
    [
        (9000, None, 0, ""),
        (9000, None, 2, ""),
        (1000, None, 0, "of the answer were unsent, not 3000"),
        (9000, 5000, 0, "the server says that it sent 5000 ms"),
    ],
)
def test_an_interruption_counts_only_with_evidence(
    generated_ms: int, sent_ms: int | None, stale_packets: int, failure: str
) -> None:
    async def trial() -> tuple[Interruption, Double]:
        async with running(Script(answer_s=6.0, stale_packets=stale_packets)) as double, call(url=double.url) as going:

            async def tell() -> None:
                # What the double sent is known only when it is asked.
                await going.until(lambda: going.conversation.speech_started_s is not None, timeout_s=5)
                await going.pause(0.2)
                received_ms = going.conversation.turns[0].audio_bytes // 48
                double.script.turns = stopped(generated_ms, received_ms if sent_ms is None else sent_ms)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(tell())
                found = await interrupt(going, tone(0.5), after_s=0.5, url=double.url, api_key=None)
            return found, double

    found, double = asyncio.run(trial())
    assert failure in found.failure
    assert bool(found.failure) is bool(failure)
    assert found.stale_bytes == stale_packets * 2400
    if not failure:
        assert found.stop_ms is not None
        assert found.notice_ms is not None
        assert 0 <= found.notice_ms <= 150
        assert found.stop_ms <= found.notice_ms + (30 if stale_packets else 0)
        assert found.unsent_ms is not None
        assert found.unsent_ms >= 3000
    assert any(event["type"] == "conversation.item.truncate" for event in double.received)


def test_an_interruption_that_nothing_shows_does_not_count() -> None:
    async def trial() -> Interruption:
        async with running(Script(answers=True, answer_s=0.1, think_s=0.0)) as double, call(url=double.url) as going:
            return await interrupt(going, tone(0.3), after_s=0.0, url=double.url, api_key=None)

    assert "nothing shows that 3 s were unsent" in asyncio.run(trial()).failure


@live
def test_the_whole_command_over_the_wire(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    async def both() -> dict[str, Any]:
        async with running(Script(silence_s=0.45, answer_s=6.0, turns=stopped(9000, 0))) as double:
            words = ["--url", double.url, "--turns", "1", "--pauses", "1", "--trials", "1"]
            report = await _run(parser.parse_args([*words, "--answer-s", "0.2", "--json", str(tmp_path / "r.json")]))
            return {row.figure: row for row in report.rows}

    found = asyncio.run(both())
    assert found["voice to voice p50"].holds is True
    assert "server_vad(interrupt_response=True)" in found["voice to voice p50"].note
    assert found["turns ended inside a sentence"].value == 0
    whole = found["the same without streaming p50"].value
    assert whole is not None
    assert whole >= 5000, "the answer was generated so long after the speech's end, as the server saw it"
    assert found["idle load"].skipped
    assert found["idle load"].holds is None
    assert found["barge-in p99"].holds is False  # the double's ledger does not agree with what it sent
    written = json.loads((tmp_path / "r.json").read_text())
    assert len(written["failures"]) == 1
    assert written["samples"]["turns"][0]["clip"] == "capital.wav"
    assert written["holds"] is False


@pytest.mark.parametrize(
    ("turns", "cut"),
    [
        ([Turn(stopped_s=10.2)], False),
        ([Turn(stopped_s=9.9)], True),
        ([Turn(committed_s=9.9)], True),
        ([Turn(stopped_s=10.2, committed_s=10.2), Turn(stopped_s=11.0)], True),
        ([Turn()], False),
    ],
)
def test_a_sentence_is_cut_by_an_early_end_or_by_a_second_turn(turns: list[Turn], cut: bool) -> None:
    assert was_cut(turns, 10.0) is cut


def test_figures_that_are_missing_fail_their_bars() -> None:
    judged = {row.figure: row.holds for row in rows(Found(), whole=True) if row.bar is not None}
    assert judged == dict.fromkeys(judged, False)
    assert len(judged) == 6


def test_late_audio_of_a_trial_that_does_not_count_still_counts_as_late() -> None:
    trials = [
        Interruption(stop_ms=80.0, notice_ms=90.0, unsent_ms=4000),
        Interruption(stale_bytes=960, failure="x"),
    ]
    found = {row.figure: row for row in rows(Found(interruptions=trials), whole=False)}
    assert found["old audio after speech_started"].value == 960
    assert found["barge-in p99"].value == 80.0
    assert found["barge-in p99"].note.startswith("1 of 2 trials")


def test_list_names_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert capsys.readouterr().out.startswith("talk ")


def test_a_server_that_is_not_there_fails_every_trial_and_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["talk", "--url", "ws://127.0.0.1:9", "--turns", "1", "--pauses", "1", "--trials", "1"])
    out = capsys.readouterr().out
    assert code == 1
    assert "3 trials without a figure:" in out
    assert "no server at ws://127.0.0.1:9" in out
    assert out.strip().endswith("NOT all bars hold")
