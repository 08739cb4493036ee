"""Settings of the native protocol: what a patch changes, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from duplex.errors import ClientError
from duplex.protocol.native import client
from duplex.session import events
from duplex.session.settings import SemanticVad, ServerVad, SessionSettings
from duplex.transport.native import configuration, refusal
from duplex.transport.native.wire import Wire
from tests.transport.fakes import SERVED

WEATHER = {"type": "function", "name": "weather", "description": "Now.", "parameters": {"type": "object"}}


def wire(settings: SessionSettings | None = None) -> Wire:
    made = Wire(opening=client.Open(version=1), served=SERVED)
    made.settings = settings or SessionSettings()
    return made


def update(to: Wire, **settings: Any) -> SessionSettings:
    message = refusal.decode(json.dumps({"type": "update", "settings": settings}))
    assert isinstance(message, client.Update)
    to.take(message)
    event = to.unsent.pop()
    assert isinstance(event, events.Configure)
    return event.settings


SILENCE = ServerVad(threshold=0.3, silence_ms=700, interrupt_response=False)


@pytest.mark.parametrize(
    ("present", "patch", "wanted"),
    [
        (SILENCE, {"silence_ms": 300}, ServerVad(threshold=0.3, silence_ms=300, interrupt_response=False)),
        (SILENCE, {"type": "silence"}, SILENCE),
        (SILENCE, {}, SILENCE),
        (SILENCE, {"type": "semantic"}, SemanticVad(interrupt_response=False)),
        (SILENCE, {"type": "semantic", "eagerness": "low"}, SemanticVad(eagerness="low", interrupt_response=False)),
        (SILENCE, None, None),
        (SILENCE, {"type": "none"}, None),
        (None, {"type": "semantic"}, SemanticVad()),
        (None, {}, None),
    ],
)
def test_a_patch_of_turn_detection_changes_what_it_names(
    present: ServerVad | None, patch: dict[str, Any] | None, wanted: ServerVad | SemanticVad | None
) -> None:
    assert update(wire(SessionSettings(turn_detection=present)), turn_detection=patch).turn_detection == wanted


def test_what_is_left_out_stays() -> None:
    to = wire(SessionSettings(instructions="Be brief.", speed=1.2, turn_detection=SILENCE))
    settings = update(to, temperature=0.5)
    assert settings == SessionSettings(instructions="Be brief.", speed=1.2, turn_detection=SILENCE, temperature=0.5)
    assert update(to, instructions=None, voice=None, tools=None, tool_choice=None) == settings


def test_tools_are_taken_shown_and_cleared() -> None:
    to = wire()
    settings = update(to, tools=[WEATHER], tool_choice="none")
    shown = msgspec.to_builtins(configuration.shown(settings, SERVED))
    assert (shown["tools"], shown["tool_choice"]) == ([WEATHER], "none")
    assert update(to, tool_choice="auto").tools == settings.tools
    assert update(to, tools=[]).tools == ()


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"tools": [{"type": "function", "name": "two words"}]}, "settings.tools[0].name"),
        ({"tools": [{"type": "mcp", "name": "m"}]}, "settings.tools[0].type"),
        ({"tool_choice": "required"}, "settings.tool_choice"),
        ({"turn_detection": {"eagerness": "low"}}, "settings.turn_detection.eagerness"),
    ],
)
def test_what_is_not_served_is_refused_and_changes_nothing(settings: dict[str, Any], param: str) -> None:
    before = SessionSettings(turn_detection=SILENCE)
    to = wire(before)
    with pytest.raises(ClientError) as caught:
        update(to, **settings)
    assert caught.value.param == param
    assert to.settings == before
    assert not to.unsent


def test_a_response_may_do_without_tools() -> None:
    to = wire()
    message = refusal.decode('{"type":"signal","signal":{"kind":"respond","tool_choice":"none"}}')
    assert isinstance(message, client.Signal)
    to.take(message)
    event = to.unsent.pop()
    assert isinstance(event, events.CreateResponse)
    assert event.options.tool_choice == "none"
