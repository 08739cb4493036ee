"""The ears of a soak: each promise that is broken is noticed, and none that is kept."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from duplex.protocol.native import server
from duplex.protocol.native.item import Response
from duplex.protocol.native.media import SPEECH, Frame
from duplex.protocol.native.settings import SemanticDetection, Settings
from latency_bench.wire.chaos.ear import Heard, NativeEar, RealtimeEar
from latency_bench.wire.chaos.plan import Moment
from latency_bench.wire.native import Message

AUDIO = base64.b64encode(bytes(480)).decode()
SETTINGS = Settings(
    instructions="",
    modality="audio",
    voice="default",
    speed=1.0,
    max_output_tokens=None,
    temperature=0.8,
    turn_detection=SemanticDetection(),
)

Event = dict[str, Any]


def created(name: str = "r") -> Event:
    return {"type": "response.created", "response": {"id": name}}


def audio(name: str = "r") -> Event:
    return {"type": "response.output_audio.delta", "response_id": name, "delta": AUDIO}


def words(text: str, name: str = "r") -> Event:
    return {"type": "response.output_audio_transcript.delta", "response_id": name, "delta": text}


def done(name: str = "r", status: str = "completed") -> Event:
    return {"type": "response.done", "response": {"id": name, "status": status}}


def error(kind: str, code: str) -> Event:
    return {"type": "error", "error": {"type": kind, "code": code, "message": "m"}}


SPEECH_STARTED: Event = {"type": "input_audio_buffer.speech_started", "item_id": "i"}


def realtime(events: Iterable[Event]) -> Heard:
    heard = Heard()
    ear = RealtimeEar(heard=heard, name="c")
    for number, event in enumerate(events):
        ear.take({"event_id": f"e{number}", **event})
    return heard


def test_an_answer_that_is_interrupted_in_order_breaks_nothing() -> None:
    heard = realtime(
        [
            created(),
            words("One. "),
            audio(),
            audio(),
            SPEECH_STARTED,
            done(status="cancelled"),
            created("s"),
            audio("s"),
        ]
    )
    assert (heard.breaches, heard.stale_bytes) == ([], 0)
    assert heard.counts["interrupted"] == 1
    assert heard.counts["answers cancelled"] == 1
    assert heard.counts["audio_bytes"] == 3 * 480


@pytest.mark.parametrize(
    ("events", "breach"),
    [
        ([created(), SPEECH_STARTED, audio()], "audio of r after its interruption"),
        ([created(), done(), audio()], "audio of r after its end"),
        ([audio()], "audio of r that was not announced"),
        ([created(), created()], "r was announced twice"),
        ([created(), done(), done()], "r ended, which had ended"),
        ([done()], "r ended, which was not announced"),
        ([created(), done(), words("more")], "words of r, which is over"),
        ([created(), done(status="failed")], "r failed"),
        ([error("server_error", "internal")], "a fault of the server"),
        ([{**SPEECH_STARTED, "event_id": "x"}, {**SPEECH_STARTED, "event_id": "x"}], "event x came twice"),
        (
            [
                created(),
                words("One. "),
                {"type": "response.output_audio_transcript.done", "response_id": "r", "transcript": "Two."},
            ],
            "the words of r are not those",
        ),
    ],
)
def test_each_broken_promise_is_one_sentence(events: list[Event], breach: str) -> None:
    heard = realtime(events)
    assert len(heard.breaches) == 1
    assert breach in heard.breaches[0]
    assert heard.stale_bytes == (480 if "after its" in breach else 0)


def test_stale_audio_is_counted_whole_and_told_once() -> None:
    heard = realtime([created(), SPEECH_STARTED, audio(), audio(), audio()])
    assert heard.stale_bytes == 3 * 480
    assert len(heard.breaches) == 1


def test_a_refusal_and_a_queue_that_was_too_long_are_no_faults() -> None:
    heard = realtime([error("invalid_request_error", "invalid_json"), error("server_error", "session_queue_timeout")])
    assert heard.breaches == []


def test_moments_follow_the_events() -> None:
    ear = RealtimeEar(heard=Heard(), name="c")
    ids = count()
    for event, moment in (
        (SPEECH_STARTED, Moment.SPEAKING),
        ({"type": "input_audio_buffer.speech_stopped"}, Moment.HEARING),
        (created(), Moment.THINKING),
        (words("One."), Moment.TALKING),
        (audio(), Moment.LISTENING),
    ):
        ear.take({"event_id": f"{next(ids)}", **event})
        assert moment in ear.reached
        assert Moment.ANSWERED not in ear.reached
    assert ear.answering
    ear.take({"event_id": "last", **done()})
    assert Moment.ANSWERED in ear.reached
    assert not ear.answering


# The native protocol ----------------------------------------------------------------------------


def response(name: str, epoch: int, status: str = "in_progress") -> Response:
    return Response(response_id=name, epoch=epoch, modality="audio", status=status)  # type: ignore[arg-type]


def begun(number: int, name: str = "r", epoch: int = 1) -> Message:
    return server.ResponseCreated(sequence=number, response=response(name, epoch))


def over(number: int, name: str = "r", epoch: int = 1) -> Message:
    return server.ResponseDone(sequence=number, response=response(name, epoch, "completed"))


def frame(number: int, epoch: int = 1, start: int = 0) -> Message:
    return Frame(kind=SPEECH, payload=bytes(480), epoch=epoch, sequence=number, timestamp=start)


def interrupted(number: int, name: str = "r", epoch: int = 1) -> Message:
    return server.Interrupted(sequence=number, response_id=name, item_id="i", epoch=epoch, samples=0)


def started(number: int) -> Message:
    return server.SpeechStarted(sequence=number, item_id="i", at_ms=0)


def closed(number: int, reason: str = "client") -> Message:
    return server.Closed(sequence=number, reason=reason, message="m")


def native(messages: Iterable[Message]) -> tuple[Heard, NativeEar]:
    heard = Heard()
    ear = NativeEar(heard=heard, name="c")
    for message in messages:
        ear.take(message)
    return heard, ear


def test_a_session_in_order_breaks_nothing() -> None:
    heard, ear = native(
        [
            begun(1),
            frame(2),
            frame(3, start=240),
            server.Heartbeat(at=0.0, taken=0),
            started(4),
            interrupted(5),
            over(6),
            begun(7, "s", 2),
            frame(8, 2),
            over(9, "s", 2),
            closed(10),
        ]
    )
    assert (heard.breaches, heard.stale_bytes) == ([], 0)
    assert (ear.seen, ear.closed) == (10, "client")


@pytest.mark.parametrize(
    ("messages", "breach"),
    [
        ([begun(1), frame(3)], "number 3 after 1: what is between is missing"),
        ([begun(1), frame(1)], "number 1 after 1"),
        ([begun(1), started(2), frame(3)], "audio of r after its interruption"),
        ([begun(1), interrupted(2), frame(3)], "audio of epoch 1 after its interruption"),
        ([begun(1, epoch=2), interrupted(2, epoch=2), frame(3, 1)], "audio of epoch 1 after its interruption"),
        ([begun(1), over(2), frame(3)], "audio of r after its end"),
        ([frame(1)], "audio of an answer that was not announced"),
        ([begun(1), frame(2, start=7)], "audio from sample 7 on, where 0 was the next"),
        ([closed(1, "error")], "the session was closed: error"),
        ([server.ResponseText(sequence=1, response_id="r", item_id="i", text="t")], "words of r, which was not"),
    ],
)
def test_each_broken_promise_of_the_native_protocol_is_one_sentence(messages: list[Message], breach: str) -> None:
    heard, _ = native(messages)
    assert len(heard.breaches) == 1
    assert breach in heard.breaches[0]
    assert heard.stale_bytes == (480 if "after its" in breach else 0)


def test_what_comes_again_after_a_resume_is_no_second_time() -> None:
    heard, ear = native([begun(1), frame(2), frame(3, start=240), over(4)])
    ear.resume(2)
    for message in (frame(3, start=240), over(4), closed(5)):
        ear.take(message)
    assert heard.breaches == []


def test_audio_of_an_interrupted_answer_does_not_come_again() -> None:
    heard, ear = native([begun(1), frame(2), started(3), interrupted(4)])
    ear.resume(1)
    ear.take(frame(2))
    assert heard.stale_bytes == 480


def test_holes_after_a_resume_need_an_interruption() -> None:
    heard, ear = native([begun(1), frame(2)])
    ear.resume(1)
    for message in (started(5), interrupted(6), over(7), closed(8)):
        ear.take(message)
    assert heard.breaches == []
    heard, ear = native([begun(1), frame(2)])
    ear.resume(1)
    for message in (over(7), closed(8)):
        ear.take(message)
    assert len(heard.breaches) == 1
    assert "holes" in heard.breaches[0]


def test_a_snapshot_stands_for_all_that_was_missed() -> None:
    heard, ear = native([begun(1), frame(2)])
    ear.resume(0)
    ear.take(
        server.Snapshot(
            sequence=40,
            session_id="s",
            conversation_id="c",
            settings=SETTINGS,
            items=[],
            response=response("t", 3),
            speaking=None,
        )
    )
    for message in (frame(41, 3, 960), over(42, "t", 3), closed(43)):
        ear.take(message)
    assert heard.breaches == []


def test_the_end_of_a_replaced_connection_is_not_that_of_the_session() -> None:
    heard, ear = native([begun(1), closed(0, "replaced")])
    assert (heard.breaches, ear.closed) == ([], "")
