"""Turns out of events, on a virtual clock."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np
import pytest

from duplex.client.conversation import Conversation
from duplex.client.events import Event, decode
from duplex.client.player import RATE_HZ, Microphone
from duplex.client.playout import Playout
from duplex.client.realtime_reader import RealtimeReader
from duplex.client.report import conversation_report
from duplex.errors import TalkError

SESSION = {"audio": {"input": {"turn_detection": {"type": "server_vad", "interrupt_response": True}}}}
DEAF = {"audio": {"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}}}


class Scene:
    """A conversation whose clock moves by what is said."""

    def __init__(self, session: dict[str, Any] = SESSION) -> None:
        self.microphone = Microphone()
        self.playout = Playout(rate_hz=RATE_HZ)
        self.conversation = Conversation(microphone=self.microphone, playout=self.playout)
        self.now = 100.0
        self.reader = RealtimeReader(self.conversation)
        self.tell("session.created", session=session)

    def speak(self, seconds: float) -> None:
        self.microphone.say(np.full(round(seconds * RATE_HZ), 8000, np.int16))
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            self.now += 0.02
            self.microphone.handed(self.microphone.frame(), self.now)

    def tell(self, kind: str, **rest: Any) -> list[dict[str, Any]]:
        event = decode(msgspec.json.encode({"type": kind, **rest}))
        return self.reader.receive(event, self.now)

    def end_turn(self, item: str = "item_1") -> None:
        end_ms = self.microphone.audible_end * 1000 // RATE_HZ
        self.tell("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=end_ms)
        self.tell("input_audio_buffer.committed", item_id=item)

    def answer(self, response: str = "r1") -> None:
        self.tell("response.created", response={"id": response, "status": "in_progress"})

    def audio(self, samples: np.ndarray, response: str = "r1") -> None:
        delta = base64.b64encode(samples.astype("<i2").tobytes()).decode()
        self.tell("response.output_audio.delta", response_id=response, item_id=f"a_{response}", delta=delta)

    def done(self, response: str = "r1", status: str = "completed", reason: str | None = None) -> None:
        details = {"reason": reason} if reason else None
        self.tell("response.done", response={"id": response, "status": status, "status_details": details})


def loud(seconds: float) -> np.ndarray:
    return np.full(round(seconds * RATE_HZ), 8000, np.int16)


def silent(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE_HZ), np.int16)


def test_voice_to_voice_is_last_audible_sample_sent_to_first_audible_packet() -> None:
    scene = Scene()
    scene.speak(1.0)
    scene.wait(0.4)
    scene.end_turn()
    scene.answer()
    scene.wait(0.1)
    scene.audio(silent(0.1))
    scene.wait(0.02)
    scene.audio(loud(0.1))
    turn = scene.conversation.turns[0]
    assert turn.voice_to_voice_ms == pytest.approx(520)
    assert turn.since_speech_ms(turn.first_packet_s) == pytest.approx(500)
    assert turn.voice_to_ear_ms == pytest.approx(600)  # 100 ms of silence play first
    assert turn.since_speech_ms(turn.server_zero_s) == pytest.approx(0)


def test_a_window_that_spans_two_packets_belongs_to_the_later_one() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(np.concatenate([silent(0.05), loud(0.005)]))
    assert not scene.conversation.turns[0].answered
    scene.wait(0.02)
    scene.audio(loud(0.005))
    assert scene.conversation.turns[0].voice_to_voice_ms == pytest.approx(20)


def test_quiet_sound_is_no_answer() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(np.full(RATE_HZ, 300, np.int16))  # -40.8 dBFS
    scene.done()
    assert not scene.conversation.turns[0].answered


def test_words_find_their_turn_whenever_they_come() -> None:
    scene = Scene()
    scene.speak(0.5)
    early = "conversation.item.input_audio_transcription.delta"
    scene.tell(early, item_id="item_1", delta="Good ")
    scene.tell(early, item_id="item_1", delta="mor")
    scene.end_turn("item_1")
    scene.answer()
    scene.tell("response.output_audio_transcript.delta", response_id="r1", delta="Hel")
    scene.tell("response.output_audio_transcript.delta", response_id="r1", delta="lo.")
    assert (scene.conversation.turns[0].heard, scene.conversation.turns[0].said) == ("Good mor", "Hello.")
    scene.tell("conversation.item.input_audio_transcription.completed", item_id="item_1", transcript="Good morning.")
    assert [turn.heard for turn in scene.conversation.turns] == ["Good morning."]


def test_speech_cuts_an_answer_off_at_what_was_heard() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(loud(0.5))
    scene.wait(0.2)
    sent = scene.tell("input_audio_buffer.speech_started", item_id="item_2", audio_start_ms=0)
    assert sent == [{"type": "conversation.item.truncate", "item_id": "a_r1", "content_index": 0, "audio_end_ms": 200}]
    scene.audio(loud(0.1))
    scene.done(status="cancelled", reason="turn_detected")
    turn = scene.conversation.turns[0]
    assert (turn.stale_bytes, turn.audio_bytes) == (4800, 28_800)
    assert (turn.played_ms, turn.status, turn.reason) == (200, "cancelled", "turn_detected")
    assert len(scene.playout.render(0.0)) == round((scene.now) * RATE_HZ)


def test_an_answer_that_had_been_sent_and_still_played_is_truncated_and_nothing_is_stale() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(loud(0.5))
    scene.done()
    scene.wait(0.1)
    sent = scene.tell("input_audio_buffer.speech_started", item_id="item_2")
    assert sent[0]["audio_end_ms"] == 100
    assert scene.conversation.turns[0].interrupted_s == scene.now
    assert scene.conversation.turns[0].stale_bytes == 0


def test_an_answer_that_has_been_heard_whole_is_not_truncated() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(loud(0.1))
    scene.done()
    scene.wait(0.2)
    assert scene.tell("input_audio_buffer.speech_started", item_id="item_2") == []
    assert scene.conversation.turns[0].interrupted_s is None


def test_an_answer_cut_off_before_its_first_sound_counts_its_late_audio() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    assert scene.tell("input_audio_buffer.speech_started", item_id="item_2") == []
    scene.audio(loud(0.1))
    assert scene.conversation.turns[0].stale_bytes == 4800
    assert not scene.conversation.turns[0].answered


def test_where_speech_does_not_interrupt_nothing_is_stale() -> None:
    scene = Scene(DEAF)
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(loud(0.5))
    assert scene.tell("input_audio_buffer.speech_started", item_id="item_2") == []
    scene.audio(loud(0.1))
    assert scene.conversation.turns[0].stale_bytes == 0
    assert scene.playout.end_s == pytest.approx(scene.now + 0.6)


def test_two_turns_have_their_own_figures_and_the_report_shows_the_last_answered_one() -> None:
    scene = Scene()
    for number, wait_s in ((1, 0.3), (2, 0.5)):
        scene.speak(0.5)
        scene.wait(wait_s)
        scene.end_turn(f"item_{number}")
        scene.answer(f"r{number}")
        scene.audio(loud(0.1), f"r{number}")
        scene.done(f"r{number}")
        scene.wait(0.2)
    scene.speak(0.5)
    scene.end_turn("item_3")
    report = conversation_report(scene.conversation)
    assert [turn["voice_to_voice_ms"] for turn in report["turns"]] == [300, 500, None]
    assert (report["response_id"], report["voice_to_voice_ms"], report["answered_turns"]) == ("r2", 500, 2)
    assert {"heard", "said", "voice_to_voice_ms", "stages", "stale_bytes"} <= report.keys()


def test_settled_only_when_all_has_been_said_answered_and_heard() -> None:
    scene = Scene()
    settled = scene.conversation.settled
    assert not settled(scene.now)
    scene.speak(0.5)
    scene.tell("input_audio_buffer.speech_started", item_id="item_1")
    assert not settled(scene.now)
    scene.wait(0.2)
    scene.end_turn()
    assert not settled(scene.now)
    scene.answer()
    scene.audio(loud(0.5))
    assert not settled(scene.now)
    scene.done()
    assert not settled(scene.now)
    scene.wait(0.5)
    assert settled(scene.now + 0.001)
    scene.speak(0.1)
    assert not settled(scene.now)  # spoken, and not yet taken as a turn


def test_a_turn_that_the_client_ends_itself() -> None:
    scene = Scene({"audio": {"input": {"turn_detection": None}}})
    scene.speak(0.5)
    scene.wait(0.1)
    scene.conversation.committing()
    scene.tell("input_audio_buffer.committed", item_id="item_1")
    scene.answer()
    scene.audio(loud(0.1))
    assert len(scene.conversation.turns) == 1
    assert scene.conversation.turns[0].user_item_id == "item_1"
    assert scene.conversation.turns[0].voice_to_voice_ms == pytest.approx(100)


def test_an_answer_to_text_has_no_voice_to_voice() -> None:
    scene = Scene()
    scene.answer()
    scene.audio(loud(0.1))
    assert scene.conversation.turns[0].answered
    assert scene.conversation.turns[0].voice_to_voice_ms is None


@pytest.mark.parametrize("delta", ["%%%", base64.b64encode(b"abc").decode()])
def test_audio_that_cannot_be_decoded_is_the_servers_fault(delta: str) -> None:
    with pytest.raises(TalkError, match="the server sent audio that cannot be decoded"):
        Event(type="response.output_audio.delta", delta=delta).pcm()


@pytest.mark.parametrize("message", ["{", "[]", '{"kind": 1}', '{"type": 3}'])
def test_a_message_that_is_no_event_is_the_servers_fault(message: str) -> None:
    with pytest.raises(TalkError, match="does not speak the OpenAI Realtime protocol"):
        decode(message)


def test_the_ear_hears_the_window_where_it_lies_in_its_packet() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(silent(0.055))  # leaves half a window behind
    scene.audio(np.concatenate([silent(0.015), loud(0.05)]))
    assert scene.conversation.turns[0].voice_to_ear_ms == pytest.approx(70)


def test_a_listener_who_has_heard_enough_stops_the_answer_and_what_is_on_its_way_is_not_stale() -> None:
    scene = Scene()
    scene.speak(0.5)
    scene.end_turn()
    scene.answer()
    scene.audio(loud(0.5))
    scene.wait(0.1)
    messages = scene.reader.hush(scene.now)
    assert [(message["type"], message.get("audio_end_ms")) for message in messages] == [
        ("response.cancel", None),
        ("conversation.item.truncate", 100),
    ]
    scene.audio(loud(0.1))
    scene.done(status="cancelled", reason="client_cancelled")
    turn = scene.conversation.turns[0]
    assert (turn.stale_bytes, turn.interrupted_s, turn.played_ms) == (0, None, 100)
    assert scene.playout.end_s == pytest.approx(scene.now)
    assert scene.reader.hush(scene.now) == []
