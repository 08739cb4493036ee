"""What happens to a conversation that is too long: asked for and shown, in both protocols."""

from __future__ import annotations

import json

import msgspec
import pytest

from duplex.errors import ClientError
from duplex.protocol.native import settings as native
from duplex.session import events, notices
from duplex.session.settings import RetentionRatio, SessionSettings, Truncation
from duplex.transport.native.configuration import patched, shown
from duplex.transport.openai_realtime.dialect import OpenAIDialect
from tests.transport.fakes import SERVED
from tests.transport.schema import checked

POLICIES: list[tuple[object, Truncation]] = [
    ("auto", "auto"),
    ("disabled", "disabled"),
    ({"type": "retention_ratio", "retention_ratio": 0.5}, RetentionRatio(retention_ratio=0.5)),
    ({"type": "retention_ratio"}, RetentionRatio(retention_ratio=0.8)),
]
WRONG: list[object] = [
    "sometimes",
    {"type": "ratio"},
    {"type": "retention_ratio", "retention_ratio": 0},
    {"type": "retention_ratio", "retention_ratio": 1.1},
]


def dialect() -> OpenAIDialect:
    made = OpenAIDialect(served=SERVED)
    made.encode(notices.Opened(session_id="s", conversation_id="c", settings=SessionSettings()))
    return made


def update(truncation: object) -> str:
    return json.dumps({"type": "session.update", "session": {"type": "realtime", "truncation": truncation}})


def said_back(to: OpenAIDialect, settings: SessionSettings) -> object:
    (told,) = to.encode(notices.Configured(settings=settings))
    checked(told)
    return msgspec.to_builtins(told)["session"]["truncation"]


@pytest.mark.parametrize(("wire", "policy"), POLICIES)
def test_openai_asks_and_is_shown(wire: object, policy: Truncation) -> None:
    to = dialect()
    (event,) = to.decode(update(wire))
    assert isinstance(event, events.Configure)
    assert event.settings == SessionSettings(truncation=policy)
    whole = {"retention_ratio": 0.8, "token_limits": None}
    assert said_back(to, event.settings) == (wire if isinstance(wire, str) else whole | dict(wire))  # type: ignore[call-overload]


def test_openai_has_a_limit_of_tokens() -> None:
    to = dialect()
    asked = {"type": "retention_ratio", "retention_ratio": 0.7, "token_limits": {"post_instructions": 900}}
    (event,) = to.decode(update(asked))
    assert isinstance(event, events.Configure)
    assert event.settings.truncation == RetentionRatio(retention_ratio=0.7, most_tokens=900)
    assert said_back(to, event.settings) == asked


@pytest.mark.parametrize("wire", WRONG)
def test_openai_refuses_anything_else(wire: object) -> None:
    with pytest.raises(ClientError) as refused:
        dialect().decode(update(wire))
    assert refused.value.param is not None
    assert refused.value.param.startswith("session.truncation")


def test_a_patch_without_it_leaves_it() -> None:
    holds = SessionSettings(truncation="disabled")
    assert patched(holds, native.SettingsPatch(speed=1.2), SERVED).truncation == "disabled"


@pytest.mark.parametrize(("wire", "policy"), POLICIES)
def test_the_native_protocol_asks_and_is_shown(wire: object, policy: Truncation) -> None:
    patch = msgspec.convert({"truncation": wire}, native.SettingsPatch)
    settings = patched(SessionSettings(), patch, SERVED)
    assert settings == SessionSettings(truncation=policy)
    back = msgspec.to_builtins(shown(settings, SERVED))["truncation"]
    assert msgspec.convert({"truncation": back}, native.SettingsPatch) == patch


@pytest.mark.parametrize("wire", WRONG)
def test_the_native_protocol_refuses_anything_else(wire: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"truncation": wire}, native.SettingsPatch)
