"""What the session tells, as OpenAI's events: their order, their completeness, and OpenAI's own types."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from duplex.errors import ClientError, ConfigError
from duplex.protocol.openai_realtime.server import QueueUpdated, ServerEvent
from duplex.session import notices
from duplex.session.fence import MAIN, Fence
from duplex.session.item import Item, Part
from duplex.session.notices import Notice, ResponseInfo
from duplex.session.port import Audio
from duplex.session.settings import ServerVad, SessionSettings
from duplex.transport import closing
from duplex.transport.info import Served
from duplex.transport.openai_realtime.dialect import OpenAIDialect
from tests.transport.fakes import SERVED
from tests.transport.schema import MODELS, OWN, checked

FENCE = Fence("sess_1", 1, MAIN, 1)
PCM = np.arange(-3, 3, dtype=np.int16)

OPENED = notices.Opened(session_id="sess_1", conversation_id="conv_1", settings=SessionSettings())


def dialect() -> OpenAIDialect:
    return OpenAIDialect(served=SERVED)


def told(to: OpenAIDialect, *notices_or_audio: Notice | Audio) -> list[dict[str, Any]]:
    return [checked(event) for one in notices_or_audio for event in to.encode(one)]


def types(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def answer_item(status: str, text: str, kind: str = "audio") -> Item:
    part = Part(kind=kind, text=text, audio_ms=250)  # type: ignore[arg-type]
    return Item(item_id="item_a", role="assistant", status=status, parts=(part,))  # type: ignore[arg-type]


def info(
    status: str = "in_progress", *, modality: str = "audio", item: Item | None = None, **more: Any
) -> ResponseInfo:
    return ResponseInfo(response_id="resp_1", modality=modality, status=status, item=item, **more)  # type: ignore[arg-type]


def begun(modality: str = "audio") -> list[Notice | Audio]:
    """An answer up to its first delta."""
    item = answer_item("in_progress", "", modality)
    return [
        notices.ResponseCreated(response=info(modality=modality)),
        notices.ResponseItemAdded(response_id="resp_1", item=item, previous_item_id="item_u"),
        notices.ItemAdded(item=item, previous_item_id="item_u"),
    ]


def words(text: str, modality: str = "audio") -> Notice:
    return notices.ResponseText(response_id="resp_1", item_id="item_a", text=text, modality=modality)  # type: ignore[arg-type]


def sound(item_id: str = "item_a", response_id: str = "resp_1") -> Audio:
    return Audio(fence=FENCE, response_id=response_id, item_id=item_id, pcm=PCM)


def ended(status: str, text: str, modality: str = "audio", **more: Any) -> list[Notice | Audio]:
    item = answer_item("completed" if status == "completed" else "incomplete", text, modality)
    return [
        notices.ItemDone(item=item, previous_item_id="item_u"),
        notices.ResponseDone(response=info(status, modality=modality, item=item, **more)),
    ]


BEGIN = ["response.created", "response.output_item.added", "conversation.item.added", "response.content_part.added"]
END_AUDIO = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]
END_TEXT = ["response.output_text.done", *END_AUDIO[2:]]
DELTAS = ["response.output_audio_transcript.delta", "response.output_audio.delta"]


def test_a_session_begins_with_its_whole_configuration() -> None:
    created, conversation = told(dialect(), OPENED)
    assert created["type"] == "session.created"
    session = created["session"]
    assert session["id"] == "sess_1"
    assert session["model"] == "duplex"
    assert session["output_modalities"] == ["audio"]
    assert session["max_output_tokens"] == "inf"
    assert session["audio"]["output"]["voice"] == "robin"
    assert session["audio"]["input"]["turn_detection"]["type"] == "semantic_vad"
    assert session["audio"]["input"]["transcription"] == {"model": "ears", "language": "en"}
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert conversation["conversation"] == {"id": "conv_1", "object": "realtime.conversation"}


def test_an_answer_that_completes_tells_everything_once_and_in_order() -> None:
    to = dialect()
    told(to, OPENED)
    done = ended("completed", "Hello there.", input_tokens=30, cached_tokens=20, output_tokens=4, max_output_tokens=200)
    events = told(to, *begun(), words("Hello "), sound(), words("there."), sound(), *done)
    assert types(events) == [*BEGIN, *DELTAS, *DELTAS, *END_AUDIO]
    assert len({event["event_id"] for event in events}) == len(events)
    about = [event for event in events if event["type"].startswith("response.") and "response" not in event]
    assert all(event["response_id"] == "resp_1" and event["output_index"] == 0 for event in about)
    in_part = [event for event in about if "item" not in event]
    assert all(event["item_id"] == "item_a" and event["content_index"] == 0 for event in in_part)
    by_type = {event["type"]: event for event in events}
    assert by_type["response.created"]["response"]["status"] == "in_progress"
    assert by_type["response.created"]["response"]["usage"] is None
    assert by_type["conversation.item.added"]["previous_item_id"] == "item_u"
    assert by_type["conversation.item.added"]["item"]["content"] == []
    assert by_type["response.content_part.added"]["part"] == {"type": "audio", "transcript": ""}
    assert base64.b64decode(by_type["response.output_audio.delta"]["delta"]) == PCM.astype("<i2").tobytes()
    assert by_type["response.output_audio_transcript.done"]["transcript"] == "Hello there."
    assert by_type["response.content_part.done"]["part"] == {"type": "audio", "transcript": "Hello there."}
    content = [{"type": "output_audio", "transcript": "Hello there."}]
    assert by_type["response.output_item.done"]["item"]["content"] == content
    response = by_type["response.done"]["response"]
    assert (response["status"], response["status_details"]) == ("completed", None)
    assert response["output"][0]["content"] == content
    assert response["max_output_tokens"] == 200
    assert response["conversation_id"] == "conv_1"
    assert response["usage"]["total_tokens"] == 34
    assert response["usage"]["input_token_details"]["cached_tokens"] == 20


def test_an_answer_of_text_has_no_event_of_audio() -> None:
    events = told(dialect(), *begun("text"), words("Hi.", "text"), *ended("completed", "Hi.", "text"))
    assert types(events) == [*BEGIN, "response.output_text.delta", *END_TEXT]
    assert events[3]["part"] == {"type": "text", "text": ""}
    assert events[5]["text"] == "Hi."
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_text", "text": "Hi."}]


@pytest.mark.parametrize(
    ("status", "reason", "details"),
    [
        ("cancelled", "turn_detected", {"type": "cancelled", "reason": "turn_detected"}),
        ("cancelled", "client_cancelled", {"type": "cancelled", "reason": "client_cancelled"}),
        ("incomplete", "max_output_tokens", {"type": "incomplete", "reason": "max_output_tokens"}),
        (
            "failed",
            "",
            {"type": "failed", "error": {"type": "server_error", "code": "stage_failed", "message": "think: broke"}},
        ),
    ],
)
def test_whatever_was_begun_is_ended(status: str, reason: str, details: dict[str, Any]) -> None:
    error = "think: broke" if status == "failed" else ""
    done = ended(status, "Hello", status_reason=reason, error=error)
    events = told(dialect(), *begun(), words("Hello there."), sound(), *done)
    assert types(events) == [*BEGIN, *DELTAS, *END_AUDIO]
    assert events[-1]["response"]["status_details"] == details
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"
    # Only what was heard is kept, whatever was said before.
    assert events[-5]["transcript"] == "Hello"


def test_an_answer_without_an_item_has_only_a_beginning_and_an_end() -> None:
    events = told(
        dialect(), begun()[0], notices.ResponseDone(response=info("cancelled", status_reason="client_cancelled"))
    )
    assert types(events) == ["response.created", "response.done"]
    assert events[-1]["response"]["output"] == []


def test_an_item_that_the_session_does_not_finish_is_finished_with_the_response() -> None:
    events = told(dialect(), *begun(), words("Hi"), notices.ResponseDone(response=info("failed", error="gone")))
    assert types(events) == [*BEGIN, DELTAS[0], *END_AUDIO[:4], "response.done"]
    assert events[-2]["item"]["content"] == [{"type": "output_audio", "transcript": "Hi"}]


def test_a_part_opens_before_any_delta_also_outside_the_conversation() -> None:
    events = told(dialect(), *begun()[:2], sound())
    assert types(events) == [BEGIN[0], BEGIN[1], BEGIN[3], "response.output_audio.delta"]


def test_audio_of_an_answer_that_is_over_or_unknown_is_never_sent() -> None:
    to = dialect()
    assert told(to, sound()) == []
    told(to, *begun(), sound())
    assert told(to, sound(response_id="resp_0")) == []
    assert told(to, sound(item_id="item_b")) == []
    told(to, ended("cancelled", "", status_reason="turn_detected")[0])
    assert told(to, sound()) == []
    told(to, ended("cancelled", "", status_reason="turn_detected")[1])
    assert told(to, sound(), words("late")) == []
    assert told(to, ended("cancelled", "", status_reason="turn_detected")[1]) == []


def test_metadata_comes_back() -> None:
    labels = (("client_event_id", "e7"),)
    events = told(
        dialect(),
        notices.ResponseCreated(response=info(metadata=labels)),
        notices.ResponseDone(response=info("completed", metadata=labels)),
    )
    assert [event["response"]["metadata"] for event in events] == [{"client_event_id": "e7"}] * 2


USER = Item(item_id="item_u", role="user", status="completed", parts=(Part(kind="audio", text=None, audio_ms=900),))
TYPED = Item(item_id="item_t", role="user", status="completed", parts=(Part(kind="text", text="Hi"),))


@pytest.mark.parametrize(
    ("notice", "expected"),
    [
        (
            notices.SpeechStarted(item_id="item_u", at_ms=120),
            {"type": "input_audio_buffer.speech_started", "item_id": "item_u", "audio_start_ms": 120},
        ),
        (
            notices.SpeechStopped(item_id="item_u", at_ms=1120),
            {"type": "input_audio_buffer.speech_stopped", "item_id": "item_u", "audio_end_ms": 1120},
        ),
        (
            notices.AudioCommitted(item_id="item_u", previous_item_id=None),
            {"type": "input_audio_buffer.committed", "item_id": "item_u", "previous_item_id": None},
        ),
        (notices.AudioCleared(), {"type": "input_audio_buffer.cleared"}),
        (
            notices.ItemDeleted(item_id="item_u"),
            {"type": "conversation.item.deleted", "item_id": "item_u"},
        ),
        (
            notices.ItemTruncated(item_id="item_a", content_index=0, audio_end_ms=40),
            {"type": "conversation.item.truncated", "item_id": "item_a", "content_index": 0, "audio_end_ms": 40},
        ),
    ],
)
def test_small_notices(notice: Notice, expected: dict[str, Any]) -> None:
    (event,) = told(dialect(), notice)
    assert event | {"event_id": None} == expected | {"event_id": None}


def test_items_of_the_user() -> None:
    added, done, shown = told(
        dialect(),
        notices.ItemAdded(item=USER, previous_item_id=None),
        notices.ItemDone(item=TYPED, previous_item_id="item_u"),
        notices.ItemRetrieved(item=TYPED),
    )
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert done["previous_item_id"] == "item_u"
    assert done["item"] == shown["item"]
    assert shown["item"]["content"] == [{"type": "input_text", "text": "Hi"}]


def test_what_the_user_said() -> None:
    delta, completed = told(dialect(), notices.Transcribed(item_id="item_u", text="Good day.", audio_ms=1500))
    assert delta["delta"] == completed["transcript"] == "Good day."
    assert completed["usage"] == {"type": "duration", "seconds": 1.5}
    (failed,) = told(dialect(), notices.TranscriptionFailed(item_id="item_u", message="hear: broke"))
    assert failed["error"]["message"] == "hear: broke"


def test_an_error_names_the_event_and_the_field() -> None:
    error = ClientError("no", code="c", param="a.b", event_id="mine", kind="server_error")
    (event,) = told(dialect(), notices.Refused(error=error))
    assert event["error"] == {"type": "server_error", "code": "c", "message": "no", "param": "a.b", "event_id": "mine"}


def test_the_session_says_what_holds() -> None:
    settings = SessionSettings(turn_detection=ServerVad(silence_ms=700), speed=1.25, max_output_tokens=50)
    (event,) = told(dialect(), notices.Configured(settings=settings))
    assert event["session"]["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 700,
        "create_response": True,
        "interrupt_response": True,
        "idle_timeout_ms": None,
    }
    assert event["session"]["audio"]["output"]["speed"] == 1.25
    assert event["session"]["max_output_tokens"] == 50


@pytest.mark.parametrize(
    ("reason", "code", "announced"),
    [
        ("client", 1000, False),
        ("idle", 1000, True),
        ("expired", 1000, True),
        ("shutdown", 1001, True),
        ("slow_reader", 1008, True),
        ("failed", 1011, True),
        ("something new", 1011, True),
    ],
)
def test_how_a_session_ends(reason: str, code: int, announced: bool) -> None:
    closed = notices.Closed(reason=reason, message="It is over.")
    assert closing.code_of(closed) == code
    assert [event["error"]["message"] for event in told(dialect(), closed)] == ["It is over."] * announced


def test_a_close_frame_holds_only_so_much() -> None:
    farewell = closing.farewell(1011, "ü" * 100)
    assert farewell.reason == "ü" * 61


def test_a_position_in_the_queue_comes_before_the_session() -> None:
    to = dialect()
    (event,) = to.encode(notices.Queued(position=2, eta_s=None))
    assert event == QueueUpdated(event_id="event_1", position=2, eta_s=None)
    assert types(told(to, OPENED)) == ["session.created", "conversation.created"]


def kinds(of: type[ServerEvent] = ServerEvent) -> list[type[ServerEvent]]:
    return [of, *(kind for sub in of.__subclasses__() for kind in kinds(sub))]


def tag(kind: type[ServerEvent]) -> str:
    return str(kind.__struct_config__.tag)


@pytest.mark.parametrize("kind", [kind for kind in kinds() if "." in tag(kind) and not tag(kind).startswith(OWN)])
def test_every_event_is_one_of_openais_and_has_what_it_must(kind: type[ServerEvent]) -> None:
    model = MODELS[tag(kind)]
    wanted = {name for name, field in model.model_fields.items() if field.is_required()}
    assert wanted <= {"type", *kind.__struct_fields__} <= set(model.model_fields)


def test_another_rate_is_refused_when_the_server_is_built() -> None:
    with pytest.raises(ConfigError, match="16000 Hz"):
        OpenAIDialect(served=Served(output_hz=16_000))
