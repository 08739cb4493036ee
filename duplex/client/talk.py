"""`duplex talk FILE.wav`: speaks a file to a server and listens to the answers."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from duplex.audio.pcm import Samples, last_audible
from duplex.audio.resample import resample
from duplex.audio.wav import read_wav, write_wav
from duplex.client.call import call
from duplex.client.dialogue import Dialogue
from duplex.client.http import fetch_turn
from duplex.client.native_call import native_call
from duplex.client.observer import Observer
from duplex.client.player import RATE_HZ
from duplex.client.realtime import PATH as REALTIME
from duplex.client.report import Transcript, conversation_report
from duplex.client.waterfall import draw
from duplex.errors import TalkError
from duplex.protocol.native import PATH
from duplex.protocol.native.settings import DetectionPatch, SettingsPatch

LEAD_S = 0.3
"""The microphone is open for so long before the file begins, as a person's would be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `duplex talk`."""
    parser.add_argument("file", type=Path, metavar="FILE.wav", help="what the user says; any PCM WAV file")
    parser.add_argument(
        "--url",
        default=f"ws://127.0.0.1:8000{PATH}",
        help=f"the server; with the path {REALTIME} in OpenAI's protocol (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, metavar="ANSWER.wav", help="save what a listener would have heard")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, and nothing else")
    parser.add_argument("--api-key", help="the server's key")
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="give up when nothing has happened for so long (default: %(default)g)",
    )
    parser.add_argument(
        "--turn-detection",
        metavar="KIND",
        help="server_vad, semantic_vad, none (the turn ends with the file), or a JSON object of the protocol that is "
        "spoken; default: the server's own",
    )


def main(args: argparse.Namespace) -> int:
    """Hold the conversation; 0 where an audible answer was heard, else 1.

    Raises:
        TalkError: the file, an argument or the server is at fault; one sentence with the remedy.
    """
    return asyncio.run(_talk(args))


def load(path: Path) -> Samples:
    """Read a recording for the microphone: int16 [n] at 24 kHz.

    Raises:
        TalkError: it cannot be read, or nothing in it is audible.
    """
    try:
        samples, rate_hz = read_wav(path)
    except OSError as error:
        raise TalkError(f"cannot read {path} ({error.strerror}); give the path of a WAV file") from None
    except ValueError as error:
        raise TalkError(str(error)) from None
    samples = resample(samples, from_hz=rate_hz, to_hz=RATE_HZ)
    if last_audible(samples, RATE_HZ) is None:
        raise TalkError(f"nothing in {path} is louder than -40 dBFS; record it louder")
    return samples


def turn_detection(text: str | None) -> dict[str, Any] | None:
    """Content of a ``session.update`` for `--turn-detection`; None where nothing is to be changed.

    Raises:
        TalkError: it is neither a kind nor a JSON object.
    """
    if text is None:
        return None
    detection: Any
    if text in ("server_vad", "semantic_vad"):
        detection = {"type": text}
    elif text == "none":
        detection = None
    else:
        try:
            detection = json.loads(text)
        except json.JSONDecodeError:
            detection = text
        if not isinstance(detection, dict):
            raise TalkError(
                f"--turn-detection takes server_vad, semantic_vad, none or a JSON object like "
                f'{{"type": "server_vad", "silence_duration_ms": 300}}, not {text}'
            )
    return {"audio": {"input": {"turn_detection": detection}}}


def native_settings(text: str | None) -> SettingsPatch | None:
    """The same for the native protocol, which has other names for its kinds of turn detection.

    Raises:
        TalkError: it is neither a kind nor a JSON object that describes one.
    """
    asked = turn_detection(text)
    if asked is None:
        return None
    detection = asked["audio"]["input"]["turn_detection"]
    if detection is None:
        return SettingsPatch(turn_detection=None)
    kind = {"server_vad": "silence", "semantic_vad": "semantic"}.get(detection.get("type"), detection.get("type"))
    try:
        return SettingsPatch(turn_detection=msgspec.convert({**detection, "type": kind}, DetectionPatch))
    except msgspec.ValidationError as error:
        raise TalkError(f"--turn-detection {text}: {error}; see the server's settings.turn_detection") from None


@asynccontextmanager
async def _open(args: argparse.Namespace, observer: Observer) -> AsyncIterator[Dialogue]:
    """A conversation in the protocol that the address names: OpenAI's by its path, else the native one."""
    if urlsplit(args.url).path.rstrip("/") == REALTIME:
        session = turn_detection(args.turn_detection)
        async with call(
            url=args.url, api_key=args.api_key, session=session, timeout_s=args.timeout, observer=observer
        ) as going:
            yield going
    else:
        settings = native_settings(args.turn_detection)
        async with native_call(
            url=args.url, api_key=args.api_key, settings=settings, timeout_s=args.timeout, observer=observer
        ) as going_on:
            yield going_on


async def _talk(args: argparse.Namespace) -> int:
    samples = load(args.file)
    transcript = Transcript(out=sys.stdout)
    async with _open(args, Observer() if args.json else transcript) as going:
        await _converse(going, samples, args.timeout)
        conversation = going.conversation
        for turn in conversation.turns:
            if turn.response_id:
                turn.server = await fetch_turn(url=args.url, response_id=turn.response_id, api_key=args.api_key)
    transcript.close()
    heard = any(turn.answered for turn in conversation.turns)
    if args.out is not None:
        _save(args.out, going)
    if args.json:
        json.dump(conversation_report(conversation), sys.stdout, indent=1, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        for number, turn in enumerate(conversation.turns, 1):
            print(f"\n{draw(turn, title=f'turn {number}')}")
    if not heard:
        why = f" (the server said: {conversation.errors[-1]})" if conversation.errors else ""
        raise TalkError(f"no answer was heard within {args.timeout:g} s{why}; is there speech in {args.file}?")
    return 0


async def _converse(going: Dialogue, samples: Samples, timeout_s: float) -> None:
    """Speak, then listen until everything is settled, or nothing has happened for `timeout_s`."""
    await going.pause(LEAD_S)
    going.say(samples)
    await going.until(lambda: not going.microphone.queued, timeout_s=len(samples) / RATE_HZ + timeout_s)
    if going.conversation.detection is None:
        going.conversation.committing()
        await going.answer()
    while not going.conversation.settled(going.now):
        left_s = max(0.0, going.playout.end_s - going.now)
        known = going.progress

        def news(known: int = known) -> bool:
            return going.progress != known or going.conversation.settled(going.now)

        if not await going.until(news, timeout_s=left_s + timeout_s):
            return


def _save(path: Path, going: Dialogue) -> None:
    try:
        write_wav(path, going.playout.render(going.started_s), RATE_HZ)
    except OSError as error:
        raise TalkError(f"cannot write {path} ({error.strerror}); choose another place with --out") from None
