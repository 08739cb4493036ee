"""One clip, one turn: how long until an answer is heard, and whether the turn was ended too early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from duplex.audio.pcm import last_audible
from duplex.client.call import Call
from duplex.client.http import fetch_turn
from duplex.client.player import RATE_HZ, ROOM_DBFS
from duplex.client.report import turn_report
from duplex.client.turn import Turn
from latency_bench.clips import Clip

ANSWER_WITHIN_S = 10.0
SETTLE_S = 10.0
GAP_S = 0.6
"""Between the end of one answer and the next clip."""


@dataclass(slots=True, kw_only=True)
class Spoken:
    """What became of one clip.

    Attributes:
        clip: its file.
        cut: the server ended a turn before the clip's last audible sample had been sent, or made two turns of it.
        failure: why there is no figure; empty where there is one. A cut turn has none: its answer came too early.
        turn: the last turn that the clip made.
        report: the turn as JSON, with the server's waterfall.
    """

    clip: str
    text: str
    cut: bool = False
    failure: str = ""
    turn: Turn = field(default_factory=Turn)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def voice_to_voice_ms(self) -> float | None:
        return None if self.failure else self.turn.voice_to_voice_ms

    @property
    def voice_to_ear_ms(self) -> float | None:
        return None if self.failure else self.turn.voice_to_ear_ms

    @property
    def wait_ms(self) -> float | None:
        """Last speech sample sent to the news that the turn has ended."""
        return None if self.failure else self.turn.since_speech_ms(self.turn.stopped_s)


async def speak(going: Call, clips: Sequence[Clip], *, answer_s: float, url: str, api_key: str | None) -> list[Spoken]:
    """Speak each clip into an open conversation, let its answer be heard for at most `answer_s`, and go on.

    Raises:
        TalkError: the connection is gone.
    """
    spoken = []
    for clip in clips:
        spoken.append(await _speak(going, clip, answer_s))
        turn = spoken[-1].turn
        if turn.response_id:
            turn.server = await fetch_turn(url=url, response_id=turn.response_id, api_key=api_key)
        spoken[-1].report = {"clip": clip.file, **turn_report(turn), "cut": spoken[-1].cut}
    return spoken


async def _speak(going: Call, clip: Clip, answer_s: float) -> Spoken:
    conversation, microphone = going.conversation, going.microphone
    before = len(conversation.turns)
    samples = clip.samples(RATE_HZ)
    # The noise of the clip goes on after it, as that of a room would.
    microphone.room(ROOM_DBFS if clip.noise_dbfs is None else clip.noise_dbfs)
    end = going.say(samples) + (last_audible(samples, RATE_HZ) or 0)
    await going.until(lambda: not microphone.queued, timeout_s=len(samples) / RATE_HZ + 5.0)
    if conversation.detection is None:
        conversation.committing()
        await going.send({"type": "input_audio_buffer.commit"})
        await going.send({"type": "response.create"})

    def turns() -> list[Turn]:
        return conversation.turns[before:]

    # A turn that was ended too early is followed by another one with the rest of the clip: wait for the last.
    await going.until(
        lambda: bool(turns()) and turns()[-1].answered and not conversation.speaking, timeout_s=ANSWER_WITHIN_S
    )
    await going.until(lambda: not any(turn.active for turn in turns()), timeout_s=answer_s)
    await going.hush()
    await going.until(lambda: not any(turn.active for turn in turns()), timeout_s=SETTLE_S)
    await going.pause(GAP_S)
    end_s = microphone.sent_s(end)
    spoken = Spoken(clip=clip.file, text=clip.text)
    if not turns():
        spoken.failure = f"{clip.file}: no turn was seen within {ANSWER_WITHIN_S:g} s"
        return spoken
    spoken.turn = turns()[-1]
    spoken.cut = was_cut(turns(), end_s)
    if spoken.cut:
        spoken.failure = f"{clip.file}: the turn was ended inside the sentence ({len(turns())} turns)"
    elif not spoken.turn.answered:
        errors = f" ({conversation.errors[-1]})" if conversation.errors else ""
        spoken.failure = f"{clip.file}: no answer was heard within {ANSWER_WITHIN_S:g} s{errors}"
    return spoken


def was_cut(turns: Sequence[Turn], end_s: float | None) -> bool:
    """Whether a clip's sentence was cut: a turn ended before its last audible sample was sent, or it made several.

    Args:
        turns: what the clip made.
        end_s: when its last audible sample was handed to the socket.
    """
    ends = [turn.stopped_s if turn.stopped_s is not None else turn.committed_s for turn in turns]
    return len(turns) > 1 or any(at_s is not None and end_s is not None and at_s < end_s for at_s in ends)
