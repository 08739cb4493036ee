"""Reading ahead: what is read, when, and that nothing comes of it but time."""

from __future__ import annotations

import pytest

from duplex.connector.payload import Completeness, Transcript
from duplex.session.effects import Abort, Update
from duplex.session.events import CommitAudio, Signalled
from duplex.session.fence import MAIN
from duplex.session.notices import ResponseCreated, SpeechStopped
from duplex.session.reading import AHEAD, calibrated, certain, marked
from duplex.session.settings import ServerVad, SessionSettings
from tests.session.driver import Driver


@pytest.mark.parametrize(
    ("heard", "stays"),
    [
        ("", ""),
        ("What", ""),
        ("What is", "What"),
        ("What is the capital of France?", "What is the capital of"),
        ("Yes. I", "Yes"),
        ("one two, three", "one two"),
    ],
)
def test_the_last_word_may_be_half_of_one(heard: str, stays: str) -> None:
    assert certain(heard) == stays


@pytest.mark.parametrize("said", ["Where to?", "Go on.", "Well,", "I mean…", "", 'She said "no"'])
def test_a_mark_that_is_there_is_left_alone(said: str) -> None:
    assert marked(said) == said


def test_words_without_a_mark_are_judged_with_one_and_answered_without() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    driver.microphone([0.0])
    so_far(driver, "What is it", end=driver.marks[-1][1].end)
    assert read(driver)[-1] == "What is it."
    driver.microphone([0.0] * 2)
    driver.answer(0.96)
    driver.read()
    assert driver.main is not None
    assert driver.prompts[driver.main].messages[-1].text == "What is it", "as the turn's final words will be"


def test_a_first_message_is_more_complete_than_a_model_thinks() -> None:
    assert calibrated(Completeness(probability=0.5), first=True).probability == pytest.approx(5 / 7)
    assert calibrated(Completeness(probability=0.5), first=False).probability == 0.5
    for certainty in (0.0, 1.0):
        assert calibrated(Completeness(probability=certainty), first=True).probability == certainty


def so_far(driver: Driver, text: str, end: int = 0) -> None:
    driver.do(Signalled(fence=driver.hearings()[0], payload=Transcript(text=text, end=end, final=False)))


def read(driver: Driver) -> list[str]:
    """What has been read of the user's newest message, in order."""
    return [prompt.messages[-1].text for prompt in driver.readings.values()]


def test_the_history_is_read_at_the_onset_and_the_words_as_they_come() -> None:
    driver = Driver(settings=SessionSettings(instructions="Be kind."))
    driver.speak(10)
    assert read(driver) == [""]
    driver.read()
    so_far(driver, "What is the")
    driver.read()
    so_far(driver, "What is the capital of")
    assert read(driver) == ["", "What is", "What is the capital"]
    prompts = list(driver.readings.values())
    assert all(prompt.messages[0].text == "Be kind." for prompt in prompts)
    assert {prompt.max_tokens for prompt in prompts} == {driver.limits.max_output_tokens}
    assert driver.main is None, "it is no turn"


def test_one_is_read_at_a_time_and_then_the_newest() -> None:
    driver = Driver()
    driver.speak(10)
    so_far(driver, "One two")
    so_far(driver, "One two three four")
    assert read(driver) == [""]
    driver.read()
    driver.read()
    assert read(driver) == ["", "One two three"]


def test_the_words_of_a_pause_are_judged_whole_before_they_are_answered() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    assert read(driver)[-1] == "What is it?"
    driver.microphone([0.0] * 2)
    driver.answer(0.96)
    assert driver.main is None
    driver.read()
    assert driver.main is not None
    assert driver.counts == {"provisional_turns": 1}


def test_no_answer_is_begun_to_what_does_not_sound_as_if_it_were_over() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    driver.read()
    driver.microphone([0.0] * 2)
    assert driver.main is None, "nobody has said yet how it sounds"
    driver.answer(0.5)
    assert driver.main is None
    driver.microphone([0.0] * 2)
    driver.answer(0.95)
    assert driver.main is not None, "together the answers are likely enough"


def test_where_no_one_is_asked_an_answer_is_begun_in_the_pause() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=ServerVad()))
    driver.speak(10)
    driver.read()
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    driver.read()
    assert driver.main is not None


def test_a_judgement_ends_a_turn_that_waited_for_it() -> None:
    ends = []
    for probability in (1.0, 0.0):
        driver = Driver()
        driver.speak(10)
        driver.read()
        driver.microphone([0.0])
        so_far(driver, "What is it?", end=driver.marks[-1][1].end)
        for _ in range(9):
            driver.microphone([0.0])
            driver.answer(0.98)
        assert not driver.told(SpeechStopped)
        driver.read(probability)
        ends.append(bool(driver.told(SpeechStopped)))
    assert ends == [True, False]


def test_a_judgement_of_other_words_does_not_count() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    so_far(driver, "What is")
    fence = driver.reading
    assert fence is not None
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    for _ in range(9):
        driver.microphone([0.0])
        driver.answer(0.98)
    driver.do(Signalled(fence=fence, payload=Completeness(probability=1.0)))
    assert not driver.told(SpeechStopped)


def test_who_goes_on_is_not_answered_when_the_judgement_comes() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    driver.speak(3)
    driver.read()
    assert driver.main is None
    assert not driver.counts


def test_what_was_read_up_to_one_pause_is_not_answered_in_the_next() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    driver.read()
    driver.speak(3)
    driver.microphone([0.0] * 3)
    assert driver.questions
    driver.answer(0.96)
    assert driver.main is None


def test_a_reading_that_fails_costs_nothing_but_time() -> None:
    driver = Driver()
    driver.speak(10)
    assert driver.reading is not None
    driver.fail(driver.reading)
    driver.microphone([0.0])
    so_far(driver, "What is it?", end=driver.marks[-1][1].end)
    assert driver.reading is not None
    driver.fail(driver.reading)
    driver.microphone([0.0] * 2)
    driver.answer(0.96)
    assert driver.main is not None, "it is answered unjudged"


def test_the_prompt_does_not_wait_for_what_is_read_ahead() -> None:
    driver = Driver()
    driver.speak(10)
    reading = driver.reading
    driver.silence()
    driver.transcribe(driver.hearings()[0], "What is it?")
    assert reading in driver.aborted
    thinking = [one for one in driver.effects if isinstance(one, Abort | Update) and one.fence.lane in (AHEAD, MAIN)]
    assert [type(effect) for effect in thinking[-2:]] == [Abort, Update], "the fence first"
    assert len(driver.prompts) == 1
    assert len(driver.told(ResponseCreated)) == 1


def test_nothing_is_read_where_nothing_will_be_answered() -> None:
    driver = Driver(settings=SessionSettings(turn_detection=None))
    driver.speak(10)
    driver.do(CommitAudio())
    assert not driver.readings


def test_each_reading_has_a_fence_of_its_own() -> None:
    driver = Driver()
    driver.speak(10)
    driver.read()
    so_far(driver, "One two three")
    fences = list(driver.readings)
    assert [fence.lane for fence in fences] == [AHEAD, AHEAD]
    assert fences[1].outdates(fences[0])


def test_a_judgement_that_comes_in_the_next_pause_says_nothing_of_it() -> None:
    ends = []
    for probability in (1.0, 0.0, None):
        driver = Driver()
        driver.speak(10)
        driver.read()
        driver.microphone([0.0])
        so_far(driver, "What is it?", end=driver.marks[-1][1].end)
        driver.speak(1)
        driver.microphone([0.0])
        if probability is not None:
            driver.read(probability)
        windows = 0
        while not driver.told(SpeechStopped):
            driver.microphone([0.0])
            driver.answer(0.976)
            windows += 1
        ends.append(windows)
    assert len(set(ends)) == 1, "as long as where the words of this pause are not known"
