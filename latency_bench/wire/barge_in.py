"""Speaking over a long answer: how soon it stops, and whether anything of it comes after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duplex.audio.pcm import Samples
from duplex.client.call import Call
from duplex.client.http import fetch_turn
from duplex.client.player import RATE_HZ
from duplex.client.turn import Json, Turn

UNSENT_MS = 3000
PROMPT = "Tell me a long story about a dog that crosses a whole country to find its way home."
INSTRUCTIONS = "You are a storyteller. Your stories are long and full of detail. Never stop early."
LISTEN_S = 1.0
"""Late audio is waited for so long after the interruption."""


@dataclass(slots=True, kw_only=True)
class Interruption:
    """One trial.

    Attributes:
        stop_ms: first audible sample of the user handed to the socket, to arrival of the last packet of the old
            answer; 0 where the last packet was there before.
        notice_ms: the same, to arrival of ``speech_started``.
        stale_bytes: audio of the old answer that arrived after ``speech_started``.
        received_ms: audio of the old answer received.
        unsent_ms: audio of the old answer that the server had made and not sent when it stopped.
        failure: why the trial does not count; empty where it does.
    """

    stop_ms: float | None = None
    notice_ms: float | None = None
    stale_bytes: int = 0
    received_ms: float = 0.0
    unsent_ms: float | None = None
    failure: str = ""


async def interrupt(going: Call, clip: Samples, *, after_s: float, url: str, api_key: str | None) -> Interruption:
    """Ask for a long answer by text, hear it for `after_s`, and speak `clip` (24 kHz) over it.

    That at least `UNSENT_MS` were unsent is taken from the server's own ledger, marks ``generated_when_stopped`` and
    ``sent_when_stopped`` of /v1/turns, whose second figure must agree with what arrived here; a trial without this
    evidence does not count.

    Raises:
        TalkError: the connection is gone.
    """
    conversation, microphone = going.conversation, going.microphone
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
    await going.send({"type": "conversation.item.create", "item": item})
    await going.send({"type": "response.create"})
    if not await going.until(lambda: any(turn.answered for turn in conversation.turns), timeout_s=10.0):
        return Interruption(failure="no answer was heard within 10 s")
    old = conversation.turns[0]
    await going.pause(after_s)
    heard_before_s = conversation.speech_started_s
    start = going.say(clip)
    noticed = await going.until(lambda: conversation.speech_started_s != heard_before_s, timeout_s=3.0)
    await going.pause(LISTEN_S)
    await going.hush()
    await going.until(lambda: old.done_s is not None, timeout_s=5.0)
    old.server = await fetch_turn(url=url, response_id=old.response_id, api_key=api_key)

    onset = microphone.onset(start)
    onset_s = None if onset is None else microphone.sent_s(onset + 1)
    trial = Interruption(stale_bytes=old.stale_bytes, received_ms=old.audio_bytes / 2 / RATE_HZ * 1000)
    if not noticed or onset_s is None or conversation.speech_started_s is None or old.last_packet_s is None:
        trial.failure = "the server did not notice the user's speech within 3 s"
        return trial
    trial.notice_ms = round((conversation.speech_started_s - onset_s) * 1000, 1)
    trial.stop_ms = round(max(0.0, old.last_packet_s - onset_s) * 1000, 1)
    trial.unsent_ms, trial.failure = _unsent(old, trial.received_ms)
    return trial


def _unsent(old: Turn, received_ms: float) -> tuple[float | None, str]:
    generated_ms, sent_ms = _value(old.server, "generated_when_stopped"), _value(old.server, "sent_when_stopped")
    if generated_ms is None or sent_ms is None:
        return None, "the server does not tell how much it had generated and sent: nothing shows that 3 s were unsent"
    if abs(sent_ms - received_ms) > 100.0:
        return None, f"the server says that it sent {sent_ms:.0f} ms, and {received_ms:.0f} ms arrived"
    unsent_ms = generated_ms - sent_ms
    if unsent_ms < UNSENT_MS:
        return unsent_ms, f"only {unsent_ms:.0f} ms of the answer were unsent, not {UNSENT_MS}"
    return unsent_ms, ""


def _value(server: Json, name: str) -> float | None:
    marks: Any = server.get("marks")
    for mark in marks if isinstance(marks, list) else []:
        if isinstance(mark, dict) and mark.get("name") == name and isinstance(mark.get("value_ms"), int | float):
            return float(mark["value_ms"])
    return None
