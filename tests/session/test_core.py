"""Whole conversations through the pure core, in the order that a client sees them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from duplex.connector.payload import Transcript
from duplex.errors import ClientError, EngineDied, StageError
from duplex.session.core import DEAF_WINDOW_S, MOST_DEAF
from duplex.session.effects import Abort, Effect, Feed, Play, Submit, Tell
from duplex.session.events import (
    AppendAudio,
    Attached,
    CancelResponse,
    ClearAudio,
    Close,
    CommitAudio,
    Configure,
    CreateItem,
    CreateResponse,
    Detached,
    Played,
    Signalled,
    TruncateItem,
    Unreadable,
)
from duplex.session.fence import INPUT
from duplex.session.item import Item, Part
from duplex.session.notices import (
    AudioCommitted,
    Closed,
    Interrupted,
    ItemTruncated,
    Refused,
    ResponseCreated,
    ResponseDone,
    SpeechStarted,
    SpeechStopped,
    Transcribed,
    TranscriptionFailed,
)
from duplex.session.settings import Provisional, ResponseOptions, SemanticVad, ServerVad, SessionSettings
from tests.session.driver import LIMITS, WINDOW, Driver

SECOND = LIMITS.output_hz


def typed(text: str, item_id: str = "") -> CreateItem:
    return CreateItem(
        item=Item(item_id=item_id, role="user", status="completed", parts=(Part(kind="text", text=text),))
    )


def order(effects: list[Effect]) -> list[str]:
    return [type(effect.notice if isinstance(effect, Tell) else effect).__name__ for effect in effects]


def answering(driver: Driver, *words: str, seconds: float = 2.0) -> None:
    """Bring `driver` to where an answer is being spoken: one chunk of audio for each word."""
    driver.do(typed("Tell me something."))
    driver.do(CreateResponse())
    fence = driver.main
    assert fence is not None
    for word in words:
        driver.write(fence, word)
        driver.make_audio(fence, round(seconds * SECOND / len(words)))


def test_a_spoken_turn_from_the_first_sound_to_the_answer() -> None:
    driver = Driver()
    driver.speak(20)
    assert [type(notice) for notice in driver.notices[1:]] == [SpeechStarted]
    driver.silence()
    (hearing,) = driver.hearings()
    assert driver.main is not None, "the answer's stages are ready before the words are known"
    assert not driver.told(ResponseCreated)
    driver.transcribe(hearing, "What is it?")
    (prompt,) = driver.prompts.values()
    assert [message.text for message in prompt.messages] == ["What is it?"]
    fence = driver.main
    driver.write(fence, "A clock.")
    driver.make_audio(fence, SECOND)
    driver.complete(fence)
    driver.pass_time(1.0)
    shown = [type(notice).__name__ for notice in driver.notices[1:]]
    assert shown == [
        "SpeechStarted",
        "SpeechStopped",
        "AudioCommitted",
        "ItemAdded",
        "ItemDone",
        "Transcribed",
        "ResponseCreated",
        "ResponseItemAdded",
        "ItemAdded",
        "ResponseText",
        "ItemDone",
        "ResponseDone",
    ]
    assert driver.told(ResponseDone)[0].response.status == "completed"
    assert [item.text for item in driver.core.conversation.items] == ["What is it?", "A clock."]


def test_recognition_gets_the_audio_from_before_the_onset() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=ServerVad(prefix_padding_ms=96, silence_ms=200)))
    driver.microphone([0.0] * 20)
    driver.speak(4)
    feeds = [effect for effect in driver.effects if isinstance(effect, Feed) and effect.stage == "hear"]
    assert feeds[0].start == 20 * WINDOW - 96 * 16
    assert driver.told(SpeechStarted)[0].at_ms == 20 * 32 - 96
    driver.silence(8)
    assert driver.told(SpeechStopped)[0].at_ms == 24 * 32
    driver.speak(4)
    feeds = [effect for effect in driver.effects if isinstance(effect, Feed) and effect.stage == "hear"]
    assert feeds[-1].fence.lane != feeds[0].fence.lane
    first_of_second = next(feed for feed in feeds if feed.fence == feeds[-1].fence)
    assert first_of_second.start >= 24 * WINDOW, "what was committed is not heard again"


def test_a_barge_in_keeps_what_was_heard_and_nothing_else() -> None:
    driver = Driver()
    answering(driver, "One two", " three four", " five six", " seven eight", seconds=2.0)
    driver.pass_time(0.85)
    before = len(driver.effects)
    driver.speak(3)
    reaction = driver.effects[before:]
    names = order([effect for effect in reaction if isinstance(effect, Abort | Tell)])
    assert names[:2] == ["Abort", "SpeechStarted"], "the fence moves before anything is said"
    assert names[-1] == "ResponseDone"
    assert not any(isinstance(effect, Play) for effect in reaction)
    (done,) = driver.told(ResponseDone)
    assert (done.response.status, done.response.status_reason) == ("cancelled", "turn_detected")
    # 0.85 s of 0.5 s a chunk: the first chunk was heard, and most of the second.
    assert driver.core.conversation.items[-1].text == "One two three"
    driver.silence()
    driver.transcribe(driver.hearings()[-1], "Stop.")
    prompt = list(driver.prompts.values())[-1]
    assert [message.text for message in prompt.messages] == ["Tell me something.", "One two three", "Stop."]


def test_a_barge_in_after_all_was_sent_cuts_the_history_too() -> None:
    driver = Driver()
    answering(driver, "One two three four", seconds=0.4)
    assert driver.main is not None
    driver.complete(driver.main)
    assert driver.told(ResponseDone)[0].response.status == "completed"
    driver.pass_time(0.2)
    played = driver.played[-1].fence
    driver.speak(3)
    assert driver.core.conversation.items[-1].text == "One two"
    assert played in driver.aborted, "what is still on its way of it must not be sent, or sent again"
    assert driver.told(Interrupted)[0].samples == round(0.2 * SECOND)


def test_an_answer_that_may_not_be_interrupted_goes_on() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=SemanticVad(interrupt_response=False)))
    answering(driver, "One", " two")
    driver.speak(6)
    assert not driver.told(ResponseDone)
    driver.silence()
    assert driver.told(Refused)[-1].error.code == "conversation_already_has_active_response"


def test_a_noise_without_words_is_not_answered() -> None:
    driver = Driver()
    driver.speak(4)
    driver.silence()
    driver.transcribe(driver.hearings()[0], "")
    assert driver.told(Transcribed)[0].text == ""
    assert not driver.told(ResponseCreated)
    assert driver.main is None


def test_speaking_on_before_the_words_are_known_loses_no_words() -> None:
    driver = Driver()
    driver.speak(8)
    driver.silence()
    first = driver.hearings()[0]
    driver.speak(8)
    assert first in driver.live, "an interruption leaves the user's own words alone"
    driver.transcribe(first, "Turn on")
    driver.silence()
    driver.transcribe(driver.hearings()[-1], "the light.")
    prompt = list(driver.prompts.values())[-1]
    assert [message.text for message in prompt.messages] == ["Turn on", "the light."]
    assert len(driver.told(ResponseCreated)) == 1


def provisional() -> Driver:
    """A driver whose session has begun to answer in a pause, and has made a second of audio for it."""
    driver = Driver()
    driver.speak(20)
    driver.microphone([0.01] * 3)
    driver.recognise_pause("What is it?")
    fence = driver.main
    assert fence is not None
    driver.write(fence, "A clock.")
    driver.make_audio(fence, SECOND)
    driver.complete(fence)
    return driver


def test_an_answer_begun_in_a_pause_is_there_when_the_turn_ends() -> None:
    driver = provisional()
    assert [type(notice).__name__ for notice in driver.notices[1:]] == ["SpeechStarted"], "nothing shows"
    assert not driver.played
    assert len(driver.core.conversation.items) == 0
    before = len(driver.submitted)
    driver.silence()
    assert len(driver.submitted) == before, "nothing has to be asked again"
    driver.transcribe(driver.hearings()[0], "What is it?")
    assert [play.handle.samples for play in driver.played] == [SECOND], "the audio is there with the turn's end"
    shown = [type(notice).__name__ for notice in driver.notices[2:]]
    assert shown == [
        "SpeechStopped",
        "AudioCommitted",
        "ItemAdded",
        "ItemDone",
        "Transcribed",
        "ResponseCreated",
        "ResponseItemAdded",
        "ItemAdded",
        "ResponseText",
        "ItemDone",
        "ResponseDone",
    ]
    assert [item.text for item in driver.core.conversation.items] == ["What is it?", "A clock."]
    assert driver.counts == {"provisional_turns": 1, "provisional_turns_confirmed": 1}


def test_an_answer_begun_too_early_was_never_there() -> None:
    driver = provisional()
    first = driver.submitted[-1]
    driver.speak(10)
    assert first in driver.aborted
    driver.silence()
    driver.transcribe(driver.hearings()[0], "What is it that you want?")
    (prompt,) = [prompt for fence, prompt in driver.prompts.items() if fence not in driver.aborted]
    assert [message.text for message in prompt.messages] == ["What is it that you want?"]
    assert len(driver.told(ResponseCreated)) == 1
    assert not driver.played
    assert driver.counts == {"provisional_turns": 1, "provisional_turns_fenced": 1}


@pytest.mark.parametrize("change", ["words", "history", "instructions", "speed"])
def test_an_answer_to_something_else_is_begun_again(change: str) -> None:
    driver = provisional()
    words = "What is it?"
    if change == "words":
        words = "What was it?"
    elif change == "history":
        driver.do(typed("By the way."))
    elif change == "instructions":
        driver.do(Configure(settings=SessionSettings(instructions="Whisper.")))
    else:
        driver.do(Configure(settings=SessionSettings(speed=1.5)))
    driver.silence()
    driver.transcribe(driver.hearings()[0], words)
    assert not driver.played
    prompt = list(driver.prompts.values())[-1]
    assert prompt.messages == driver.core.conversation.messages(driver.core.settings.instructions)
    assert prompt.messages[-1].text == words
    assert len(driver.told(ResponseCreated)) == 1


def test_a_provisional_answer_that_fails_is_not_missed() -> None:
    for after_the_end in (False, True):
        driver = Driver()
        driver.speak(20)
        driver.microphone([0.01] * 3)
        driver.recognise_pause("What is it?")
        if after_the_end:
            driver.silence()
        assert driver.main is not None
        driver.fail(driver.main)
        if not after_the_end:
            driver.silence()
        driver.transcribe(driver.hearings()[0], "What is it?")
        assert driver.main is not None
        assert not driver.told(ResponseDone)
        assert len(driver.told(ResponseCreated)) == 1


def test_the_client_does_not_see_a_provisional_answer() -> None:
    driver = provisional()
    driver.do(CancelResponse())
    assert driver.told(Refused)[-1].error.code == "response_cancel_not_active"
    driver.do(CreateResponse())
    assert len(driver.told(ResponseCreated)) == 1, "its own answer comes instead"
    assert driver.counts["provisional_turns_fenced"] == 1


@pytest.mark.parametrize("what", [Provisional.RECOGNITION, Provisional.OFF])
def test_provisional_turns_can_be_off(what: Provisional) -> None:
    driver = Driver(limits=replace(LIMITS, provisional=what))
    driver.speak(20)
    driver.microphone([0.01] * 3)
    driver.recognise_pause("What is it?")
    assert driver.main is None
    assert not driver.readings
    assert bool(driver.marks) is (what is Provisional.RECOGNITION)


def test_turns_by_hand() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=None))
    driver.do(CommitAudio(event_id="e1"))
    assert driver.told(Refused)[-1].error.event_id == "e1"
    driver.do(AppendAudio(pcm=np.ones(1600, np.int16)))
    driver.do(AppendAudio(pcm=np.ones(1600, np.int16)))
    driver.do(CommitAudio())
    assert len(driver.told(AudioCommitted)) == 1
    assert driver.main is None, "a commit makes no response"
    driver.do(CreateResponse(options=ResponseOptions(metadata=(("k", "v"),))))
    assert driver.told(ResponseCreated)[0].response.metadata == (("k", "v"),)
    assert not driver.prompts, "the prompt waits for the words"
    driver.transcribe(driver.hearings()[0], "Hello.")
    assert len(driver.prompts) == 1


def test_detection_switched_on_takes_over_what_was_to_be_committed_by_hand() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=None))
    driver.microphone([0.0] * 10)
    driver.do(Configure(settings=SessionSettings(turn_detection=ServerVad(silence_ms=200))))
    driver.speak(8)
    assert len(driver.told(SpeechStarted)) == 1, "or nobody would ever be heard again"
    driver.silence(8)
    (committed,) = driver.told(AudioCommitted)
    assert committed.item_id == driver.told(SpeechStarted)[0].item_id
    (hearing,) = driver.hearings()
    assert driver.fed[hearing, "hear"] == driver.received - WINDOW, "it has all audio up to the end of the turn"


def test_detection_switched_off_between_turns_is_off_at_once() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=None))
    driver.microphone([0.0] * 4)
    driver.do(Configure(settings=SessionSettings(turn_detection=ServerVad())))
    driver.do(Configure(settings=SessionSettings(turn_detection=None)))
    driver.speak(8)
    driver.do(CommitAudio())
    assert not driver.told(SpeechStarted)
    assert driver.main is None, "a commit makes no response"


def test_what_was_cleared_begins_no_turn_although_listening_comes_to_it_later() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=ServerVad(silence_ms=200)))
    driver.do(AppendAudio(pcm=np.ones(8 * WINDOW, np.int16)))
    driver.do(ClearAudio())
    driver.listen([0.95] * 8)
    assert not driver.told(SpeechStarted)
    driver.speak(4)
    assert driver.told(SpeechStarted)[0].at_ms == 8 * 32


def test_a_commit_by_hand_takes_all_that_was_sent_although_listening_is_behind() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=ServerVad(silence_ms=200)))
    driver.do(AppendAudio(pcm=np.ones(12 * WINDOW, np.int16)))
    driver.listen([0.95] * 6)
    driver.do(CommitAudio())
    assert driver.told(SpeechStopped)[0].at_ms == 12 * 32
    (hearing,) = driver.hearings()
    assert driver.fed[hearing, "hear"] == 12 * WINDOW
    driver.listen([0.95] * 6)
    assert len(driver.told(SpeechStarted)) == 1, "the end of the word is no new turn"


def test_a_question_about_the_turn_comes_with_its_newest_audio_and_no_more() -> None:
    driver = Driver()
    driver.microphone([0.0] * 400)
    driver.speak(400)
    driver.silence(5)
    asked = [effect for effect in driver.effects if isinstance(effect, Feed) and effect.stage == "endpoint"]
    assert [(feed.end - feed.start, feed.end) for feed in asked] == [(8 * 16_000, 803 * WINDOW)]


def waits(driver: Driver) -> bool:
    """Whether the client has to wait."""
    return driver.core.behind


def test_a_client_waits_for_the_answer_to_a_question() -> None:
    driver = Driver()
    driver.speak(8)
    driver.microphone([0.0] * 4)
    assert driver.questions
    assert not waits(driver)
    driver.microphone([0.0] * 16)
    assert waits(driver)
    driver.answer(0.1)
    assert not waits(driver)


def test_a_client_waits_for_recognition() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=None))
    driver.microphone([0.9] * 900)
    assert not waits(driver)
    driver.microphone([0.9] * 100)
    assert waits(driver)
    (hearing,) = driver.hearings()
    driver.do(Signalled(fence=hearing, payload=Transcript(text="Well", end=16_000 * 5, final=False)))
    assert not waits(driver)
    for _ in range(4):
        driver.do(CommitAudio())
        driver.microphone([0.9] * 10)
    assert waits(driver), "four turns wait to be recognised"
    driver.transcribe(hearing, "Well.")
    assert not waits(driver)


def test_a_commit_leaves_no_question_open() -> None:
    driver = Driver()
    driver.speak(8)
    driver.microphone([0.0] * 4)
    driver.do(CommitAudio())
    driver.transcribe(driver.hearings()[0], "Yes.")
    driver.microphone([0.0] * 40)
    assert not waits(driver)


def test_a_session_that_speaks_is_not_idle() -> None:
    driver = Driver()
    answering(driver, *[" word"] * 40, seconds=2 * LIMITS.idle_s)
    driver.pass_time(1.5 * LIMITS.idle_s)
    assert not driver.released
    driver.pass_time(1.6 * LIMITS.idle_s)
    assert driver.told(Closed)[0].reason == "idle"


def test_cleared_audio_is_gone() -> None:
    driver = Driver()
    driver.speak(6)
    (hearing,) = driver.hearings()
    driver.do(ClearAudio())
    assert hearing in driver.aborted
    driver.silence()
    assert not driver.told(AudioCommitted)


def test_text_answers_need_only_thinking() -> None:
    driver = Driver(settings=SessionSettings(modality="text"))
    driver.do(typed("Hi."))
    driver.do(CreateResponse())
    submit = [effect for effect in driver.effects if isinstance(effect, Submit)][-1]
    assert submit.stages == ("think",)
    driver.write(submit.fence, "Hello.")
    driver.complete(submit.fence)
    assert driver.told(ResponseDone)[0].response.status == "completed"


def test_a_limit_makes_an_answer_incomplete() -> None:
    driver = Driver()
    answering(driver, "One", seconds=0.2)
    assert driver.main is not None
    driver.complete(driver.main, reason="length")
    response = driver.told(ResponseDone)[0].response
    assert (response.status, response.status_reason) == ("incomplete", "max_output_tokens")


def test_a_failed_stage_fails_its_answer_and_the_session_goes_on() -> None:
    driver = Driver()
    answering(driver, "One")
    assert driver.main is not None
    driver.fail(driver.main)
    assert driver.told(ResponseDone)[0].response.status == "failed"
    answering(driver, "Again")
    assert driver.main is not None


def test_failed_recognition_is_told_and_the_answer_goes_on_without_it() -> None:
    driver = Driver()
    driver.do(typed("First."))
    driver.speak(8)
    driver.silence()
    driver.fail(driver.hearings()[0])
    assert len(driver.told(TranscriptionFailed)) == 1
    assert len(driver.prompts) == 1


def test_truncation_by_the_client() -> None:
    driver = Driver()
    answering(driver, "One two", " three four", seconds=0.4)
    assert driver.main is not None
    driver.complete(driver.main)
    driver.pass_time(1.0)
    item_id = driver.core.conversation.items[-1].item_id
    driver.do(TruncateItem(item_id=item_id, content_index=0, audio_end_ms=401, event_id="far"))
    assert driver.told(Refused)[-1].error.event_id == "far"
    assert driver.core.conversation.items[-1].text == "One two three four"
    driver.do(TruncateItem(item_id=item_id, content_index=0, audio_end_ms=200))
    assert driver.told(ItemTruncated)[0].audio_end_ms == 200
    assert driver.core.conversation.items[-1].text == "One two"
    driver.do(TruncateItem(item_id=item_id, content_index=0, audio_end_ms=0))
    assert driver.core.conversation.items[-1].text == ""
    assert driver.core.conversation.messages("") == driver.core.conversation.messages("")[:1]


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (CancelResponse(), "response_cancel_not_active"),
        (TruncateItem(item_id="x", content_index=0, audio_end_ms=0), "item_not_found"),
        (typed("Hi.", item_id="there"), "item_exists"),
        (Unreadable(error=ClientError("The message is not JSON.", code="invalid_json")), "invalid_json"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_code(
    event: CancelResponse | TruncateItem | CreateItem | Unreadable, code: str
) -> None:
    driver = Driver()
    driver.do(typed("Hello.", item_id="there"))
    driver.do(event)
    assert driver.told(Refused)[-1].error.code == code


def test_each_answer_has_an_epoch_of_its_own() -> None:
    driver = Driver()
    fences = []
    for _ in range(3):
        answering(driver, "One", seconds=0.1)
        assert driver.main is not None
        fences.append(driver.main)
        driver.complete(driver.main)
    assert [fence.epoch for fence in fences] == [1, 2, 3]
    driver.write(fences[0], "Late.")
    driver.make_audio(fences[0], 100)
    assert len(driver.played) == 3


def test_a_second_response_is_refused_and_the_first_goes_on() -> None:
    driver = Driver()
    answering(driver, "One")
    driver.do(CreateResponse(event_id="e2"))
    assert driver.told(Refused)[-1].error.event_id == "e2"
    assert driver.main is not None
    driver.do(CancelResponse())
    assert driver.told(ResponseDone)[0].response.status_reason == "client_cancelled"


def test_another_way_to_end_turns_holds_from_the_next_turn_on() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=ServerVad(silence_ms=200)))
    driver.speak(8)
    driver.do(Configure(settings=SessionSettings(turn_detection=None)))
    driver.silence(8)
    assert len(driver.told(SpeechStopped)) == 1, "the turn under way ends as it began"
    driver.microphone([0.9] * 8)
    assert len(driver.told(SpeechStarted)) == 1, "the next one is the client's to commit"


@pytest.mark.parametrize(("seconds", "reason"), [(LIMITS.idle_s, "idle"), (LIMITS.lifetime_s, "expired")])
def test_sessions_end_by_themselves(seconds: float, reason: str) -> None:
    driver = Driver()
    while driver.now < 100.0 + seconds and reason == "expired":
        driver.pass_time(200)
        driver.do(ClearAudio())
    driver.pass_time(seconds)
    assert driver.released == 1
    assert driver.told(Closed)[0].reason == reason


def test_when_listening_fails_the_session_ends_and_says_so() -> None:
    driver = Driver()
    driver.fail(driver.input)
    assert driver.told(Closed)[0].reason == "failed"
    assert all(fence in driver.aborted or fence.lane == INPUT for fence in driver.submitted)


def died() -> StageError:
    return EngineDied("its process ended (signal 9)", stage="listen")


def test_when_its_process_dies_another_one_listens_from_there_on() -> None:
    driver = Driver()
    driver.speak(10)
    first = driver.input
    driver.fail(first, died())
    assert not driver.told(Closed)
    assert "please say it again: listen: its process ended" in driver.told(Refused)[0].error.message
    assert driver.input == first.next(), "what the former one still says is of another fence"
    assert driver.core.listening.utterance is None
    driver.speak(10)
    driver.do(CommitAudio())
    assert len(driver.told(AudioCommitted)) == 1


def test_nothing_is_lost_where_nothing_was_said() -> None:
    driver = Driver()
    driver.fail(driver.input, died())
    assert not driver.told(Closed)
    assert not driver.told(Refused)


def test_an_answer_goes_on_while_nobody_listens() -> None:
    driver = Driver()
    answering(driver, *["word "] * 4, seconds=0.5)
    driver.pass_time(0.2)
    driver.fail(driver.input, died())
    assert driver.main is not None
    assert not driver.told(Interrupted)


def test_a_process_that_dies_again_and_again_ends_the_session() -> None:
    driver = Driver()
    for _ in range(MOST_DEAF):
        driver.fail(driver.input, died())
        driver.pass_time(1)
    driver.pass_time(DEAF_WINDOW_S)
    for _ in range(MOST_DEAF):
        driver.fail(driver.input, died())
        assert not driver.told(Closed)
    driver.fail(driver.input, died())
    assert driver.told(Closed)[0].reason == "failed"


# Whoever listens ---------------------------------------------------------------------------------


def test_nobody_listens_and_then_somebody_does() -> None:
    driver = Driver()
    answering(driver, *["word "] * 4, seconds=0.5)
    driver.pass_time(0.2)
    sent = len(driver.played)
    driver.do(Detached())
    driver.pass_time(20)
    assert len(driver.played) == sent, "nothing is played to nobody"
    driver.do(Attached(generation=1))
    driver.pass_time(0.1)
    driver.do(CancelResponse())
    assert driver.told(Interrupted)[0].samples == pytest.approx(0.3 * SECOND, abs=2), "the clock stood still"


def test_turns_that_begin_are_of_the_new_owner() -> None:
    driver = Driver()
    answering(driver, "One")
    driver.do(Attached(generation=3))
    assert driver.main is not None
    assert driver.main.generation == 0, "what is under way goes on"
    driver.do(CancelResponse())
    driver.do(CreateResponse())
    assert driver.main.generation == 3
    driver.speak()
    assert [fence.generation for fence in driver.hearings()] == [3]


def test_a_snapshot_is_all_that_a_client_can_know() -> None:
    driver = Driver()
    answering(driver, "One", " two")
    driver.speak(2)
    driver.do(Configure(settings=SessionSettings(instructions="Be brief.", turn_detection=None)))
    answering(driver, "Three")
    shown = driver.core.snapshot()
    assert shown.settings == driver.core.settings
    assert [item.item_id for item in shown.items] == [item.item_id for item in driver.core.conversation.items]
    assert shown.response is not None
    assert shown.response.response_id in driver.open_responses
    assert shown.items[-1] == shown.response.item
    assert shown.items[-1].text == "Three"
    assert shown.speaking == driver.core.listening.utterance.item_id  # type: ignore[union-attr]


def test_what_a_client_says_it_has_played_counts_and_nothing_else() -> None:
    driver = Driver(acknowledged=True)
    answering(driver, "One two three four", seconds=0.4)
    item_id = driver.played[-1].item_id
    driver.pass_time(100)
    driver.do(Played(item_id=item_id, samples=SECOND // 10))
    driver.do(CancelResponse())
    assert driver.told(Interrupted)[0].samples == SECOND // 10
    driver.do(Played(item_id=item_id, samples=SECOND // 5))
    assert driver.core.conversation.items[-1].text == "One two", "it had come further than was known"
    driver.do(Played(item_id=item_id, samples=SECOND))
    driver.do(Played(item_id="nowhere", samples=1))
    assert [refused.error.code for refused in driver.told(Refused)] == ["invalid_value", "item_not_found"]


def test_only_who_was_asked_to_says_what_it_has_played() -> None:
    driver = Driver()
    answering(driver, "One")
    driver.do(Played(item_id=driver.played[-1].item_id, samples=1))
    assert driver.told(Refused)[0].error.code == "playback_reckoned"


def test_an_answer_ends_before_its_session_does() -> None:
    driver = Driver()
    answering(driver, "One", " two", " three", seconds=6.0)
    driver.pass_time(0.3)
    driver.do(Close(reason="client"))
    assert [type(notice) for notice in driver.notices[-2:]] == [ResponseDone, Closed]
    assert driver.told(ResponseDone)[0].response.status == "cancelled"
    assert not driver.open_responses
