"""Spoken conversations through the stock client: what is heard, what is said, and in which order one is told."""

from __future__ import annotations

import json

import pytest

from duplex.audio.pcm import Samples
from duplex.audio.resample import resample
from duplex.models.moonshine.recognizer import RATE_HZ as EAR_HZ
from duplex.models.moonshine.recognizer import Moonshine
from latency_bench.clips import Clip
from tests.live.caller import BYTES_PER_MS, RATE_HZ, Caller, calling, is_audible
from tests.live.process import Process
from tests.models.speech import ModelPath, word_error_rate

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]

LISTENING = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
]
BEGINNING = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
DELTAS = {"response.output_audio_transcript.delta", "response.output_audio.delta"}
ENDING = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]


@pytest.fixture(scope="module")
def ear(model_path: ModelPath) -> Moonshine:
    return Moonshine(
        encoder=model_path("moonshine/encoder.ort"),
        decoder=model_path("moonshine/decoder.ort"),
        tokenizer=model_path("moonshine/tokenizer.json"),
    )


async def transcript(caller: Caller, after: int = 0) -> str:
    """What the server has heard next."""
    told = await caller.until("conversation.item.input_audio_transcription.completed", after=after)
    heard: str = told["transcript"]
    return heard


async def test_what_is_asked_is_heard_and_what_is_answered_can_be_heard(
    server: Process, clips: dict[str, Clip], spoken: dict[str, Samples], ear: Moonshine
) -> None:
    async with calling(server.url, microphone=True, max_output_tokens=24) as caller:
        mark = len(caller.events)
        caller.say(spoken["capital"])
        answer = await caller.done()

        types = caller.types(mark)
        first, last = types.index("response.created"), types.index("response.output_audio.done")
        assert types[:first] == LISTENING
        assert types[first : first + len(BEGINNING)] == BEGINNING
        assert set(types[first + len(BEGINNING) : last]) == DELTAS
        assert types[last:] == ENDING

        assert word_error_rate([clips["capital"].text], [await transcript(caller)]) <= 0.1
        said, sound = answer["output"][0]["content"][0]["transcript"], caller.sound(answer["id"])
        assert is_audible(sound)
        heard = ear.hear(resample(sound, from_hz=RATE_HZ, to_hz=EAR_HZ))
        assert heard is not None
        assert word_error_rate([said], [heard.text]) <= 0.2

        deltas = [event for event in caller.events if event["type"] == "response.output_audio_transcript.delta"]
        assert "".join(event["delta"] for event in deltas) == said
        stopped = await caller.until("input_audio_buffer.speech_stopped")
        started = await caller.until("input_audio_buffer.speech_started")
        length_ms = len(spoken["capital"]) // (BYTES_PER_MS // 2)
        assert abs(stopped["audio_end_ms"] - started["audio_start_ms"] - length_ms) < 1000


async def test_an_interruption_takes_back_what_was_not_heard(server: Process, spoken: dict[str, Samples]) -> None:
    async with calling(server.url, microphone=True) as caller:
        await caller.write("Tell me a long story about a dog who wanted to see the world.")
        await caller.connection.response.create()
        await caller.until(lambda event: len(caller.sound(event.get("response_id", ""))) > 1.5 * RATE_HZ)
        mark = len(caller.events)
        caller.say(spoken["human_matter"])
        started = await caller.until("input_audio_buffer.speech_started", after=mark)
        old = await caller.done(after=mark)
        assert old["status"] == "cancelled"
        assert old["status_details"]["reason"] == "turn_detected"
        item_id, whole = old["output"][0]["id"], full_text(caller, old["id"])

        kept = old["output"][0]["content"][0]["transcript"]
        assert whole.startswith(kept)
        assert kept != whole

        played_ms = 700
        await caller.connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=played_ms)
        told = await caller.until("conversation.item.truncated")
        assert (told["item_id"], told["content_index"], told["audio_end_ms"]) == (item_id, 0, played_ms)
        cut = (await caller.retrieve(item_id))["content"][0]["transcript"]
        assert cut
        assert kept.startswith(cut)
        assert cut != kept

        # The next answer comes of the same conversation, and its history still has what was heard, no more.
        new = await caller.done(after=caller.events.index(told))
        assert new["id"] != old["id"]
        assert (await caller.retrieve(item_id))["content"][0]["transcript"] == cut
        assert word_error_rate(["No matter, try again."], [await transcript(caller, mark)]) <= 0.1

        after = caller.events[caller.events.index(started) :]
        late = [e for e in after if e["type"].endswith(".delta") and e.get("response_id") == old["id"]]
        assert late == []


def full_text(caller: Caller, response_id: str) -> str:
    """Every word of an answer that the client was told of."""
    return "".join(
        event["delta"]
        for event in caller.events
        if event["type"] == "response.output_audio_transcript.delta" and event["response_id"] == response_id
    )


async def nothing_answers(server: Process) -> None:
    """Of an answer that was stopped nothing works on and nothing waits to be said, though its session lives."""
    stages = [f'duplex_stage_requests{{stage="{stage}"}}' for stage in ("think", "talk", "code2wav")]

    def stopped() -> bool:
        metrics = server.metrics()
        return not any(metrics[name] for name in ("duplex_connector_payloads", *stages))

    assert await server.until(stopped, within_s=1), server.left()


@pytest.mark.parametrize("detection", [{"type": "semantic_vad"}, {"type": "server_vad", "silence_duration_ms": 300}])
async def test_the_server_detects_turns(
    server: Process, clips: dict[str, Clip], spoken: dict[str, Samples], detection: dict[str, object]
) -> None:
    audio = {"input": {"turn_detection": detection}}
    async with calling(server.url, microphone=True, max_output_tokens=6, audio=audio) as caller:
        caller.say(spoken["book"])
        answer = await caller.done()
        assert word_error_rate([clips["book"].text], [await transcript(caller)]) <= 0.1
        assert is_audible(caller.sound(answer["id"]))


async def test_turns_by_hand(server: Process, clips: dict[str, Clip], spoken: dict[str, Samples]) -> None:
    async with calling(server.url, audio={"input": {"turn_detection": None}}, max_output_tokens=6) as caller:
        await caller.append(spoken["plants"])
        await caller.connection.input_audio_buffer.commit()
        assert word_error_rate([clips["plants"].text], [await transcript(caller)]) <= 0.1
        assert not [event for event in caller.events if event["type"].startswith(("response.", "input_audio_buffer.s"))]
        await caller.connection.response.create(response={"metadata": {"mine": "7"}})
        answer = await caller.done()
        assert answer["metadata"] == {"mine": "7"}
        assert is_audible(caller.sound(answer["id"]))

        await caller.connection.input_audio_buffer.commit(event_id="empty")
        assert (await caller.error("empty"))["code"] == "input_audio_buffer_commit_empty"
        await caller.append(spoken["plants"])
        await caller.connection.input_audio_buffer.clear()
        await caller.until("input_audio_buffer.cleared")
        await caller.connection.input_audio_buffer.commit(event_id="cleared")
        assert (await caller.error("cleared"))["code"] == "input_audio_buffer_commit_empty"


async def test_a_change_of_one_setting_leaves_the_others(server: Process) -> None:
    before = {"type": "server_vad", "silence_duration_ms": 700, "threshold": 0.6}
    async with calling(server.url, audio={"input": {"turn_detection": before}}, instructions="Be kind.") as caller:
        now = await caller.update(
            audio={"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}}}
        )
        assert now["instructions"] == "Be kind."
        assert now["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 300
        assert now["audio"]["input"]["turn_detection"]["threshold"] == 0.6
        now = await caller.update(max_output_tokens=5)
        assert now["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 300


async def test_detection_stays_on_when_only_its_silence_is_changed(server: Process, spoken: dict[str, Samples]) -> None:
    audio = {"input": {"turn_detection": {"type": "server_vad"}}}
    async with calling(server.url, microphone=True, max_output_tokens=4, audio=audio) as caller:
        only = {"turn_detection": {"silence_duration_ms": 250}}
        now = await caller.update(audio={"input": only})
        assert now["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        caller.say(spoken["human_matter"])
        assert (await caller.done())["output"]

        # In semantic_vad it has no meaning: that is said, and detection is what it was.
        mark = len(caller.events)
        now = await caller.update(audio={"input": {"turn_detection": {"type": "semantic_vad"}}})
        await caller.connection.send_raw(
            json.dumps(
                {
                    "type": "session.update",
                    "event_id": "silence",
                    "session": {"type": "realtime", "audio": {"input": only}},
                }
            )
        )
        refused = await caller.error("silence")
        assert refused["param"] == "session.audio.input.turn_detection.silence_duration_ms"
        assert "server_vad" in refused["message"]
        caller.say(spoken["human_matter"])
        assert (await caller.done(after=mark))["output"]


async def test_typed_words_and_written_answers(server: Process) -> None:
    async with calling(server.url, output_modalities=["text"], max_output_tokens=12) as caller:
        mark = len(caller.events)
        answer = await caller.ask("What is the capital of France?", metadata={"a": "b"})
        assert answer["metadata"] == {"a": "b"}
        assert "Paris" in answer["output"][0]["content"][0]["text"]
        types = caller.types(mark)
        assert "response.output_text.delta" in types
        assert not [kind for kind in types if "audio" in kind]


async def test_an_answer_is_cancelled(server: Process) -> None:
    async with calling(server.url) as caller:
        await caller.write("Tell me a long story about a dog who wanted to see the world.")
        await caller.connection.response.create(event_id="first")
        await caller.until("response.output_audio.delta")
        await caller.connection.response.create(event_id="second")
        assert (await caller.error("second"))["code"] == "conversation_already_has_active_response"
        await caller.connection.response.cancel()
        answer = await caller.done()
        assert answer["status"] == "cancelled"
        assert answer["status_details"]["reason"] == "client_cancelled"
        await nothing_answers(server)
        await caller.connection.response.cancel(event_id="late")
        assert (await caller.error("late"))["code"] == "response_cancel_not_active"
        assert caller.events[-2]["type"] == "response.done", "nothing of it comes after its end"
        again = await caller.ask("Hello", output_modalities=["text"], max_output_tokens=4)
        assert again["output"]
