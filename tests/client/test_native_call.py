"""`duplex talk` and its conversation over the native protocol, against real sessions on a real socket."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duplex.audio.pcm import level_dbfs
from duplex.audio.wav import write_wav
from duplex.client.native_call import NativeCall, native_call
from duplex.client.talk import _talk, add_arguments, native_settings
from duplex.connector.payload import Payload, Pcm, Speech
from duplex.errors import TalkError
from duplex.protocol.native.settings import DetectionPatch, SettingsPatch
from duplex.session.item import Item
from tests.client.double import tone
from tests.session.engines import Say, voices
from tests.session.world import World, world
from tests.transport.fakes import app, running

pytestmark = [pytest.mark.anyio, pytest.mark.live]


def hears_what_is_loud(payload: Payload, say: Say) -> None:
    """Speech is louder than the room."""
    assert isinstance(payload, Pcm)
    loud = float(level_dbfs(payload.samples) > -45)
    say(Speech(start=payload.start, window=len(payload.samples), probabilities=(loud,)))


@asynccontextmanager
async def served(*, chunks: int = 1, **how: Any) -> AsyncIterator[tuple[str, World]]:
    engines = {"listen": hears_what_is_loud, "code2wav": voices(chunks, 2400)}
    async with world(**engines, **how) as here, running(app(here.host)) as at:  # type: ignore[arg-type]
        yield f"http://{at}", here
        await here.over()


def arguments(tmp_path: Path, *words: str, seconds: float = 0.3) -> argparse.Namespace:
    path = tmp_path / "said.wav"
    write_wav(path, tone(seconds), 24_000)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([str(path), *words])


def cut(going: NativeCall) -> None:
    """As a network does it: without a word."""
    socket = going._session._link._socket
    assert socket is not None
    socket.transport.abort()


def last_item(here: World) -> Item:
    (held,) = here.host._sessions.values()
    return held.runner._core.conversation.items[-1]


async def test_a_turn_is_heard_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with served() as (url, here):
        assert await _talk(arguments(tmp_path, "--url", url)) == 0
        assert here.host.counters["sessions_opened"] == 1
    printed = capsys.readouterr().out
    assert "you     What time is it?\nduplex  It is late.\n" in printed
    assert "voice to voice" in printed


async def test_a_turn_that_ends_with_the_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with served() as (url, _here):
        assert await _talk(arguments(tmp_path, "--url", url, "--json", "--turn-detection", "none")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["turn_detection"], report["said"], report["answered_turns"]) == (None, "It is late.", 1)
    assert report["audio_bytes"] == 2 * 2 * 2400


async def test_who_has_to_wait_is_told_the_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with served(capacity=1, queue_length=1) as (url, here):
        async with asyncio.TaskGroup() as tasks, here.host.open():
            waiting = tasks.create_task(_talk(arguments(tmp_path, "--url", url)))
            async with asyncio.timeout(5):
                while not here.host.admission.waiting:  # noqa: ASYNC110 - nobody else is told
                    await asyncio.sleep(0.005)
        assert waiting.result() == 0
    assert "(number 1 in the queue)" in capsys.readouterr().out


async def test_an_answer_survives_its_connection_and_is_heard_whole(capsys: pytest.CaptureFixture[str]) -> None:
    async with served(chunks=5) as (url, here), native_call(url=url) as going:
        going.say(tone(0.3))
        assert await going.until(lambda: any(turn.answered for turn in going.conversation.turns), timeout_s=5)
        cut(going)
        assert await going.until(lambda: going.conversation.settled(going.now), timeout_s=10)
        (turn,) = going.conversation.turns
        assert (turn.said, turn.status, turn.audio_bytes) == ("It is late.", "completed", 2 * 10 * 2400)
        assert here.host.counters["sessions_resumed"] == 1
        assert last_item(here).text == "It is late."


async def test_speech_over_an_answer_leaves_in_the_history_what_was_played() -> None:
    async with served(chunks=20) as (url, here), native_call(url=url) as going:
        going.say(tone(0.3))
        assert await going.until(lambda: going.playout.end_s > going.now + 0.3, timeout_s=5)
        await going.pause(0.7)
        going.say(tone(0.2))
        turns = going.conversation.turns
        assert await going.until(lambda: turns[0].interrupted_s is not None, timeout_s=5)
        await going.until(lambda: len(turns) > 1 and turns[1].answered, timeout_s=5)
        first = turns[0]
        (held,) = here.host._sessions.values()
        item = held.runner._core.conversation.get(first.item_id)
        assert item is not None
        assert first.played_ms is not None
        assert first.played_ms > 300
        assert item.parts[0].audio_ms == first.played_ms
        assert (item.status, item.text) == ("incomplete", first.said)
        assert first.stale_bytes == 0


async def test_what_is_played_is_told_while_it_is_played() -> None:
    async with served(chunks=10) as (url, here), native_call(url=url) as going:
        going.say(tone(0.3))
        assert await going.until(lambda: bool(going._told), timeout_s=5)
        await going.pause(0.6)
        (told,) = going._told.values()
        heard = going.playout.played(going.conversation.turns[0].item_id, going.now)
        assert 0 <= heard - told <= 0.3 * 24_000
        (held,) = here.host._sessions.values()
        answering = held.runner._core.answering
        assert answering._answer is not None, "with 2 s of audio, and half a second ahead, it is not all sent"
        assert answering._answer.playback.sent - told <= 0.5 * 24_000 + 2400


async def test_settings_that_are_refused_are_named(tmp_path: Path) -> None:
    detection = '{"type": "semantic", "silence_ms": 300}'
    async with served() as (url, _here):
        with pytest.raises(TalkError, match=r"refused the settings: .*silence_ms"):
            await _talk(arguments(tmp_path, "--url", url, "--turn-detection", detection))


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (None, None),
        ("none", SettingsPatch(turn_detection=None)),
        ("server_vad", SettingsPatch(turn_detection=DetectionPatch(type="silence"))),
        ("semantic_vad", SettingsPatch(turn_detection=DetectionPatch(type="semantic"))),
        ('{"silence_ms": 300}', SettingsPatch(turn_detection=DetectionPatch(silence_ms=300))),
    ],
)
async def test_turn_detection_has_the_same_words_in_both_protocols(
    text: str | None, settings: SettingsPatch | None
) -> None:
    assert native_settings(text) == settings


async def test_a_turn_detection_that_there_is_not_is_named() -> None:
    with pytest.raises(TalkError, match=r"--turn-detection .*magic"):
        native_settings('{"type": "magic"}')


async def test_room_noise_is_no_speech() -> None:
    assert level_dbfs(np.full(512, 30, np.int16)) < -45


async def test_a_conversation_that_is_left_as_soon_as_it_began_leaves_nothing() -> None:
    before = asyncio.all_tasks()
    async with served() as (url, _here):
        async with native_call(url=url):
            pass
        with pytest.raises(ZeroDivisionError):
            async with native_call(url=url):
                raise ZeroDivisionError
    assert asyncio.all_tasks() == before
