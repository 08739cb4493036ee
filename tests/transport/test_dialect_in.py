"""What clients send: every event understood, and every mistake answered without any harm."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.audio.resample import resample
from duplex.errors import ClientError
from duplex.session import events, notices
from duplex.session.events import AppendAudio, ClientEvent
from duplex.session.settings import ResponseOptions, SemanticVad, ServerVad, SessionSettings
from duplex.transport.info import Served
from duplex.transport.openai_realtime.dialect import OpenAIDialect
from duplex.transport.openai_realtime.incoming import LONG_CHARS
from tests.transport.fakes import SERVED
from tests.transport.schema import checked


def dialect(settings: SessionSettings | None = None, served: Served = SERVED) -> OpenAIDialect:
    made = OpenAIDialect(served=served)
    opened = notices.Opened(session_id="s", conversation_id="c", settings=settings or SessionSettings())
    made.encode(opened)
    return made


def decoded(to: OpenAIDialect, **event: Any) -> list[ClientEvent]:
    return list(to.decode(json.dumps(event)))


def refused(to: OpenAIDialect, data: str | bytes) -> ClientError:
    with pytest.raises(ClientError) as caught:
        to.decode(data)
    checked(to.error(caught.value))
    return caught.value


def configured(to: OpenAIDialect, **session: Any) -> SessionSettings:
    (event,) = decoded(to, type="session.update", session={"type": "realtime"} | session)
    assert isinstance(event, events.Configure)
    return event.settings


def test_only_audio_may_be_long() -> None:
    to = dialect()
    minute = audio(np.zeros(60 * 24_000, np.int16))
    assert len(minute) > LONG_CHARS
    heard = decoded(to, type="input_audio_buffer.append", audio=minute)
    assert sum(len(event.pcm) for event in heard if isinstance(event, AppendAudio)) == pytest.approx(960_000, abs=400)
    text = json.dumps({"type": "input_audio_buffer.append", "audio": minute, "event_id": "x" * 5000})
    for message in (
        text,
        json.dumps({"type": "response.create", "numbers": [0] * LONG_CHARS}),
        json.dumps({"audio": "", "rest": ["audio"] * LONG_CHARS}),
        json.dumps({"type": "response.create", "response": {"instructions": "x" * LONG_CHARS}}),
    ):
        assert refused(to, message).code == "event_too_long"


def audio(samples: np.ndarray) -> str:
    return base64.b64encode(samples.astype("<i2").tobytes()).decode()


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        ({"type": "input_audio_buffer.commit"}, events.CommitAudio(event_id="e")),
        ({"type": "input_audio_buffer.clear"}, events.ClearAudio(event_id="e")),
        (
            {"type": "conversation.item.retrieve", "item_id": "i"},
            events.RetrieveItem(item_id="i", event_id="e"),
        ),
        ({"type": "conversation.item.delete", "item_id": "i"}, events.DeleteItem(item_id="i", event_id="e")),
        (
            {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 1},
            events.TruncateItem(item_id="i", content_index=0, audio_end_ms=1, event_id="e"),
        ),
        ({"type": "response.create"}, events.CreateResponse(event_id="e")),
        ({"type": "response.create", "response": {}}, events.CreateResponse(event_id="e")),
        (
            {
                "type": "response.create",
                "response": {
                    "instructions": "Rhyme.",
                    "output_modalities": ["text"],
                    "max_output_tokens": 9,
                    "metadata": {"client_event_id": "e7"},
                    "conversation": "auto",
                    "tools": [],
                    "tool_choice": "auto",
                    "audio": {"output": {"voice": "marin", "format": {"type": "audio/pcm", "rate": 24000}}},
                },
            },
            events.CreateResponse(
                options=ResponseOptions(
                    instructions="Rhyme.",
                    modality="text",
                    max_output_tokens=9,
                    tool_choice="auto",
                    metadata=(("client_event_id", "e7"),),
                ),
                event_id="e",
            ),
        ),
        ({"type": "response.cancel"}, events.CancelResponse(event_id="e")),
        ({"type": "response.cancel", "response_id": "r"}, events.CancelResponse(response_id="r", event_id="e")),
    ],
)
def test_events_are_understood(wire: dict[str, Any], event: ClientEvent) -> None:
    assert decoded(dialect(), event_id="e", **wire) == [event]
    assert decoded(dialect(), event_id="e", some_new_field={"a": [1]}, **wire) == [event]


@pytest.mark.parametrize(
    ("role", "kind"), [("user", "input_text"), ("system", "input_text"), ("assistant", "output_text")]
)
def test_messages_of_text_enter_the_conversation(role: str, kind: str) -> None:
    content = [{"type": kind, "text": "One."}, {"type": kind, "text": "Two."}]
    item = {"type": "message", "role": role, "id": "mine", "content": content}
    (event,) = decoded(dialect(), type="conversation.item.create", item=item, previous_item_id="root")
    assert isinstance(event, events.CreateItem)
    assert (event.item.item_id, event.item.role, event.after) == ("mine", role, "root")
    assert [(part.kind, part.text) for part in event.item.parts] == [("text", "One."), ("text", "Two.")]


# Audio ----------------------------------------------------------------------------------------


def test_audio_is_resampled_without_a_seam_whatever_its_pieces_are() -> None:
    rng = np.random.default_rng(1)
    samples = rng.integers(-8000, 8000, 24_000).astype(np.int16)
    to, heard, at = dialect(), [], 0
    for size in (1, 7, 480, 4801, 0, 3000, 15_711):
        pieces = decoded(to, type="input_audio_buffer.append", audio=audio(samples[at : at + size]))
        heard += [piece.pcm for piece in pieces if isinstance(piece, AppendAudio)]
        at += size
    *rest, commit = decoded(to, type="input_audio_buffer.commit")
    assert commit == events.CommitAudio()
    heard += [piece.pcm for piece in rest if isinstance(piece, AppendAudio)]
    assert at == len(samples)
    np.testing.assert_array_equal(np.concatenate(heard), resample(samples, from_hz=24_000, to_hz=16_000))


def test_much_audio_comes_in_slices_made_only_as_they_are_asked_for() -> None:
    pieces = iter(dialect().decode(json.dumps({"type": "input_audio_buffer.append", "audio": audio(np.ones(240_000))})))
    first = next(pieces)
    assert isinstance(first, AppendAudio)
    assert len(first.pcm) <= 3200
    assert len(list(pieces)) == 49


def test_cleared_audio_does_not_come_back_out_of_the_resampler() -> None:
    to = dialect()
    decoded(to, type="input_audio_buffer.append", audio=audio(np.full(4800, 20_000)))
    assert decoded(to, type="input_audio_buffer.clear") == [events.ClearAudio()]
    silence = decoded(to, type="input_audio_buffer.append", audio=audio(np.zeros(4800)))
    assert all(not piece.pcm.any() for piece in silence if isinstance(piece, AppendAudio))


def test_half_a_sample_is_refused_and_nothing_of_it_is_taken() -> None:
    to = dialect()
    odd = {"type": "input_audio_buffer.append", "event_id": "e", "audio": base64.b64encode(b"\x00" * 4801).decode()}
    error = refused(to, json.dumps(odd))
    assert (error.param, error.event_id) == ("audio", "e")
    assert decoded(to, type="input_audio_buffer.commit") == [events.CommitAudio()]


# Configuration --------------------------------------------------------------------------------


def test_a_partial_turn_detection_changes_only_what_it_says() -> None:
    server = ServerVad(threshold=0.7, silence_ms=900, create_response=False)
    to = dialect(SessionSettings(turn_detection=server))
    patch = {"audio": {"input": {"turn_detection": {"silence_duration_ms": 400}}}}
    expected = ServerVad(threshold=0.7, silence_ms=400, create_response=False)
    assert configured(to, **patch).turn_detection == expected


def test_other_patches_leave_turn_detection_alone() -> None:
    to = dialect(SessionSettings(turn_detection=ServerVad(silence_ms=900)))
    settings = configured(to, instructions="", audio={"input": {}, "output": {"speed": 0.8}})
    assert settings.turn_detection == ServerVad(silence_ms=900)
    assert (settings.instructions, settings.speed) == ("", 0.8)


def test_null_switches_turn_detection_off_and_a_kind_switches_it_on() -> None:
    to = dialect()
    assert configured(to, audio={"input": {"turn_detection": None}}).turn_detection is None
    again = configured(to, audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}})
    assert again.turn_detection == SemanticVad(eagerness="high")


def test_a_change_of_kind_keeps_what_both_kinds_have() -> None:
    to = dialect(SessionSettings(turn_detection=SemanticVad(create_response=False)))
    settings = configured(to, audio={"input": {"turn_detection": {"type": "server_vad", "threshold": 0.3}}})
    assert settings.turn_detection == ServerVad(threshold=0.3, create_response=False)


def test_patches_that_follow_each_other_add_up_before_the_session_has_answered() -> None:
    to = dialect()
    configured(to, instructions="Rhyme.")
    settings = configured(to, output_modalities=["text"], max_output_tokens="inf")
    assert (settings.instructions, settings.modality, settings.max_output_tokens) == ("Rhyme.", "text", None)


@pytest.mark.parametrize("asked", ["alloy", "marin", "robin", {"id": "robin"}])
def test_voices_of_openais_mean_the_one_that_there_is_and_the_answer_says_so(asked: object) -> None:
    to = dialect()
    settings = configured(to, audio={"output": {"voice": asked}})
    assert settings.voice == "robin"
    (updated,) = to.encode(notices.Configured(settings=settings))
    assert checked(updated)["session"]["audio"]["output"]["voice"] == "robin"


def test_what_is_accepted_and_not_done_shows_as_not_done() -> None:
    to = dialect()
    settings = configured(
        to,
        tracing="auto",
        include=["item.input_audio_transcription.logprobs"],
        tools=[],
        tool_choice="auto",
        audio={
            "input": {
                "noise_reduction": {"type": "near_field"},
                "transcription": {"model": "gpt-4o-mini-transcribe", "language": "en-GB", "prompt": "names"},
            }
        },
    )
    (updated,) = to.encode(notices.Configured(settings=settings))
    session = checked(updated)["session"]
    assert (session["tracing"], session["include"], session["audio"]["input"]["noise_reduction"]) == (None, None, None)
    assert session["audio"]["input"]["transcription"] == {"model": "ears", "language": "en"}


def test_tools_are_taken_shown_and_kept() -> None:
    to = dialect()
    weather = {"type": "function", "name": "weather", "description": "Now.", "parameters": {"type": "object"}}
    settings = configured(to, tools=[weather], tool_choice="none")
    (updated,) = to.encode(notices.Configured(settings=settings))
    session = checked(updated)["session"]
    assert (session["tools"], session["tool_choice"]) == ([weather], "none")
    assert configured(to, tool_choice="auto").tools == settings.tools, "what is left out stays"
    assert configured(to, tools=[]).tools == ()


def test_transcripts_are_told_until_they_are_switched_off() -> None:
    to = dialect()
    said = notices.Transcribed(item_id="i", text="Hello.", audio_ms=400)
    settings = configured(to, audio={"input": {"transcription": None}})
    assert len(to.encode(said)) == 2, "the session has not agreed yet"
    (updated,) = to.encode(notices.Configured(settings=settings))
    assert checked(updated)["session"]["audio"]["input"]["transcription"] is None
    assert to.encode(said) == []


def test_a_patch_that_the_session_refuses_is_forgotten() -> None:
    to = dialect()
    (event,) = decoded(to, type="session.update", session={"type": "realtime", "instructions": "Rhyme."})
    assert isinstance(event, events.Configure)
    (error,) = to.encode(notices.Refused(error=ClientError("no", code="c", event_id=event.event_id)))
    assert checked(error)["error"]["event_id"] is None, "the client gave its event no id"
    assert configured(to, output_modalities=["text"]).instructions == ""


def test_another_event_with_the_id_of_a_patch_takes_nothing_from_it() -> None:
    to = dialect()
    (event,) = decoded(
        to,
        type="session.update",
        event_id="mine",
        session={"type": "realtime", "instructions": "Rhyme.", "audio": {"input": {"transcription": None}}},
    )
    assert isinstance(event, events.Configure)
    # The client gives every event the same id, and the session has just refused one that was sent before the patch.
    (error,) = to.encode(notices.Refused(error=ClientError("no", code="c", event_id="mine")))
    assert checked(error)["error"]["event_id"] == "mine"
    assert configured(to, output_modalities=["text"]).instructions == "Rhyme."
    (updated,) = to.encode(notices.Configured(settings=event.settings))
    assert checked(updated)["session"]["audio"]["input"]["transcription"] is None


# Mistakes -------------------------------------------------------------------------------------


def update(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "realtime"} | session}


def create(**item: Any) -> dict[str, Any]:
    return {"type": "conversation.item.create", "item": item}


def user(**part: Any) -> dict[str, Any]:
    return create(type="message", role="user", content=[part])


MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "response.creat"}, "unknown_event", "type"),
    ({"type": 3}, "unknown_event", "type"),
    ({}, "missing_required_parameter", "type"),
    ({"type": "input_audio_buffer.append"}, "missing_required_parameter", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "%%%"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.append", "audio": [1]}, "invalid_type", "audio"),
    ({"type": "output_audio_buffer.clear"}, "unsupported", "type"),
    ({"type": "session.update"}, "missing_required_parameter", "session"),
    ({"type": "session.update", "session": {}}, "missing_required_parameter", "session.type"),
    ({"type": "session.update", "session": {"type": "transcription"}}, "unsupported", "session.type"),
    (update(instructions="x" * 300_000), "invalid_value", "session.instructions"),
    (user(type="input_text", text="x" * 300_000), "invalid_value", "item.content[0].text"),
    (
        create(type="message", role="user", content=[{"type": "text", "text": ""}] * 300),
        "invalid_value",
        "item.content",
    ),
    (update(instructions=3), "invalid_type", "session.instructions"),
    (update(output_modalities=["audio", "text"]), "invalid_value", "session.output_modalities"),
    (update(output_modalities=["smell"]), "invalid_value", "session.output_modalities[0]"),
    (update(max_output_tokens=0), "invalid_value", "session.max_output_tokens"),
    (update(max_output_tokens="all"), "invalid_value", "session.max_output_tokens"),
    (update(tools=[{"type": "mcp", "name": "f"}]), "unsupported", "session.tools[0].type"),
    (update(tools=[{"type": "function"}]), "invalid_value", "session.tools[0].name"),
    (
        update(tools=[{"type": "function", "name": "f", "parameters": 3}]),
        "invalid_value",
        "session.tools[0].parameters",
    ),
    (update(tool_choice={"type": "function", "name": "f"}), "unsupported", "session.tool_choice"),
    (update(tool_choice="required"), "unsupported", "session.tool_choice"),
    (update(prompt={"id": "p"}), "unsupported", "session.prompt"),
    (update(audio={"output": {"voice": "nobody"}}), "invalid_value", "session.audio.output.voice"),
    (update(audio={"output": {"voice": {"id": "alloy"}}}), "invalid_value", "session.audio.output.voice"),
    (update(audio={"output": {"speed": 2}}), "invalid_value", "session.audio.output.speed"),
    (update(audio={"output": {"format": {"type": "audio/pcmu"}}}), "unsupported", "session.audio.output.format.type"),
    (update(audio={"input": {"format": {"type": "audio/pcma"}}}), "unsupported", "session.audio.input.format.type"),
    (update(audio={"input": {"format": {"rate": 16000}}}), "invalid_value", "session.audio.input.format.rate"),
    (update(audio={"input": {"format": "pcm16"}}), "invalid_type", "session.audio.input.format"),
    (
        update(audio={"input": {"transcription": {"language": "de"}}}),
        "unsupported",
        "session.audio.input.transcription.language",
    ),
    (
        update(audio={"input": {"turn_detection": {"type": "psychic"}}}),
        "invalid_value",
        "session.audio.input.turn_detection.type",
    ),
    (
        update(audio={"input": {"turn_detection": {"threshold": 1.5}}}),
        "invalid_value",
        "session.audio.input.turn_detection.threshold",
    ),
    (
        update(audio={"input": {"turn_detection": {"silence_duration_ms": 400}}}),
        "invalid_value",
        "session.audio.input.turn_detection.silence_duration_ms",
    ),
    (
        update(audio={"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6000}}}),
        "unsupported",
        "session.audio.input.turn_detection.idle_timeout_ms",
    ),
    (create(type="function_call_output", call_id="c", output="o"), "unsupported", "item.type"),
    (create(type="message", content=[]), "missing_required_parameter", "item.role"),
    (create(type="message", role="user"), "missing_required_parameter", "item.content"),
    (create(type="message", role="tool", content=[]), "invalid_value", "item.role"),
    (create(type="message", role="user", id="x" * 200), "invalid_value", "item.id"),
    (user(type="input_audio", audio="AAAA"), "unsupported", "item.content[0].type"),
    (user(type="output_text", text="x"), "invalid_value", "item.content[0].type"),
    (user(type="input_text"), "missing_required_parameter", "item.content[0].text"),
    (user(type="input_text", text=None), "missing_required_parameter", "item.content[0].text"),
    ({"type": "conversation.item.truncate", "item_id": "i"}, "missing_required_parameter", "content_index"),
    (
        {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": -1},
        "invalid_value",
        "audio_end_ms",
    ),
    ({"type": "response.create", "response": {"conversation": "none"}}, "unsupported", "response.conversation"),
    ({"type": "response.create", "response": {"input": [{}]}}, "unsupported", "response.input"),
    ({"type": "response.create", "response": {"tools": [{}]}}, "unsupported", "response.tools"),
    ({"type": "response.create", "response": {"metadata": {"a": 1}}}, "invalid_type", "response.metadata[...]"),
    ({"type": "response.create", "response": {"metadata": {"a" * 65: ""}}}, "invalid_value", "response.metadata"),
]


def everything(to: OpenAIDialect) -> str:
    """All that the dialect remembers of a configuration, an answer or a microphone, but for its counters of ids."""
    negotiation = to._incoming._negotiation
    return repr((negotiation.now, negotiation._asked, negotiation.session_id, to._outgoing._answers))


@pytest.mark.parametrize(("event", "code", "param"), MISTAKES)
def test_a_mistake_names_its_field_and_its_event_and_changes_nothing(
    event: dict[str, Any], code: str, param: str
) -> None:
    to = dialect()
    before = everything(to)
    error = refused(to, json.dumps(event | {"event_id": "mine"}))
    assert (error.code, error.param, error.event_id) == (code, param, "mine")
    assert error.kind == "invalid_request_error"
    assert error.message != ""
    assert everything(to) == before


def test_what_may_stand_there_is_said() -> None:
    patch = update(audio={"input": {"turn_detection": {"eagerness": "very"}}})
    assert "allowed: auto, high, low, medium" in refused(dialect(), json.dumps(patch)).message
    assert "allowed: audio, text" in refused(dialect(), json.dumps(update(output_modalities=["smell"]))).message
    assert "session.update" in refused(dialect(), '{"type":"session.updte"}').message
    assert "there are: robin" in refused(dialect(), json.dumps(update(audio={"output": {"voice": "x"}}))).message


@pytest.mark.parametrize(
    "data",
    [
        "",
        "nope",
        "{",
        '{"type":"response.cancel"} {}',
        "[]",
        "null",
        "3",
        '{"type":"response.cancel","event_id":"\\ud800"}',
        '{"type":"response.cancel","x":' + "[" * 100_000 + "]" * 100_000 + "}",
        b'{"type":"response.cancel"}',
        b"\x00\xff",
    ],
)
def test_what_is_no_event_is_refused(data: str | bytes) -> None:
    error = refused(dialect(), data)
    assert error.code in ("invalid_json", "invalid_type")
    assert error.event_id is None


def test_an_id_that_is_no_string_is_not_given_back() -> None:
    error = refused(dialect(), '{"type":"response.cancel","event_id":7}')
    assert (error.param, error.event_id) == ("event_id", None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TYPES = [
    "session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "conversation.item.create",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
]
NAMES = [
    *("session", "item", "response", "audio", "type", "input", "output", "turn_detection", "transcription", "voice"),
    *("format", "tools", "content", "role", "text", "item_id", "event_id", "content_index", "audio_end_ms", "metadata"),
    *("output_modalities", "instructions", "max_output_tokens"),
]
NESTED = st.recursive(
    st.sampled_from(["realtime", "message", "user", "input_text", "server_vad", "audio/pcm", "audio", "AAAA", "A", 1])
    | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)


@given(text=st.text() | JSON.map(json.dumps))
def test_no_text_at_all_does_harm(text: str) -> None:
    to = dialect()
    before = everything(to)
    try:
        list(to.decode(text))
    except ClientError as error:
        checked(to.error(error))
        assert everything(to) == before


@given(kind=st.sampled_from(TYPES), fields=st.dictionaries(st.sampled_from(NAMES), NESTED, max_size=6))
def test_no_event_of_a_known_type_does_harm(kind: str, fields: dict[str, Any]) -> None:
    to = dialect()
    before = everything(to)
    try:
        events_ = list(to.decode(json.dumps(fields | {"type": kind})))
    except ClientError as error:
        checked(to.error(error))
        assert everything(to) == before
    else:
        assert all(isinstance(event, ClientEvent) for event in events_)
