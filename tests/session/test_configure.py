"""Settings that change in the middle of a session: they hold from the next turn on, and this turn goes on as it was."""

from __future__ import annotations

import pytest

from duplex.connector.payload import Prompt, Tool
from duplex.session.effects import Effect, Submit, Tell
from duplex.session.events import Configure, CreateItem, CreateResponse
from duplex.session.item import Item, Part
from duplex.session.notices import Configured, ResponseDone
from duplex.session.settings import ResponseOptions, ServerVad, SessionSettings
from tests.session.driver import LIMITS, Driver

WEATHER = Tool(name="weather", description="Now.", parameters='{"type":"object"}')
BEFORE = SessionSettings(instructions="Be brief.", turn_detection=ServerVad(silence_ms=200))
AFTER = SessionSettings(
    instructions="Rhyme.", voice="robin", speed=1.5, temperature=0.7, tools=(WEATHER,), turn_detection=None
)


def typed(text: str) -> CreateItem:
    part = Part(kind="text", text=text)
    return CreateItem(item=Item(item_id="", role="user", status="completed", parts=(part,)))


def submitted(effects: list[Effect]) -> Submit:
    return [effect for effect in effects if isinstance(effect, Submit) and "think" in effect.stages][-1]


def newest(driver: Driver) -> Prompt:
    return list(driver.prompts.values())[-1]


def asked(driver: Driver, options: ResponseOptions = ResponseOptions()) -> Prompt:
    driver.do(typed("Well?"))
    driver.do(CreateResponse(options=options))
    return newest(driver)


def test_a_turn_that_waits_for_its_words_keeps_the_settings_that_it_began_with() -> None:
    driver = Driver(settings=BEFORE)
    driver.speak()
    driver.silence()
    begun = submitted(driver.effects)
    driver.do(Configure(settings=AFTER))
    assert driver.told(Configured)[-1].settings == AFTER
    driver.transcribe(driver.hearings()[0], "Hello?")
    prompt = newest(driver)
    assert prompt.messages[0].text == "Be brief."
    assert (prompt.temperature, prompt.tools) == (0.0, ())
    assert (begun.options.speed, begun.options.voice) == (1.0, "")
    driver.complete(begun.fence)

    prompt = asked(driver)
    assert prompt.messages[0].text == "Rhyme."
    assert (prompt.temperature, prompt.tools) == (0.7, (WEATHER,))
    options = submitted(driver.effects).options
    assert (options.speed, options.voice) == (1.5, "robin")


def test_an_answer_being_spoken_goes_on() -> None:
    driver = Driver(settings=BEFORE)
    asked(driver)
    fence = driver.main
    assert fence is not None
    driver.write(fence, "One ")
    driver.make_audio(fence, LIMITS.output_hz // 10)
    effects = driver.do(Configure(settings=AFTER))
    assert [type(effect) for effect in effects] == [Tell], "nothing is stopped, and nothing begun again"
    driver.write(fence, "two.")
    driver.make_audio(fence, LIMITS.output_hz // 10)
    driver.complete(fence)
    driver.pass_time(1.0)
    (done,) = driver.told(ResponseDone)
    assert done.response.status == "completed"
    assert done.response.item is not None
    assert done.response.item.text == "One two."
    assert len(driver.played) == 2


@pytest.mark.parametrize(
    ("session", "response", "wanted"),
    [("auto", None, (WEATHER,)), ("none", None, ()), ("auto", "none", ()), ("none", "auto", (WEATHER,))],
)
def test_the_model_sees_the_tools_that_are_chosen(session: str, response: str | None, wanted: tuple[Tool, ...]) -> None:
    driver = Driver(settings=SessionSettings(tools=(WEATHER,), tool_choice=session))  # type: ignore[arg-type]
    prompt = asked(driver, ResponseOptions(tool_choice=response))  # type: ignore[arg-type]
    assert prompt.tools == wanted


def test_tools_count_among_the_bytes_of_a_prompt() -> None:
    driver = Driver(settings=SessionSettings())
    bare = asked(driver).nbytes
    driver = Driver(settings=SessionSettings(tools=(WEATHER,)))
    assert asked(driver).nbytes == bare + WEATHER.nbytes
