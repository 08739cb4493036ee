"""Checks what the server sends against OpenAI's own types, strictly: theirs let too much and too little through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
from openai.types.realtime import RealtimeServerEvent, RealtimeSessionCreateResponse
from pydantic import BaseModel

from duplex.protocol.openai_realtime.server import ServerEvent

MODELS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(get_args(RealtimeServerEvent)[0])
}

OWN = "duplex."
"""What begins so is an event of ours; OpenAI has none like it."""

BEYOND = {"session.id", "session.object"}
"""Fields that OpenAI's server sends, and its package types only in the answer of `client_secrets`."""

PRESENT = {
    "conversation.item.added": {"previous_item_id"},
    "conversation.item.done": {"previous_item_id"},
    "input_audio_buffer.committed": {"previous_item_id"},
    "conversation.item.input_audio_transcription.delta": {"delta", "content_index"},
    "error": {"error.code", "error.param", "error.event_id"},
    "response.created": {"response.id", "response.status", "response.output", "response.conversation_id"},
    "response.done": {"response.id", "response.status", "response.output", "response.usage", "response.metadata"},
}
"""Fields that the package calls optional and that clients read all the same."""


def checked(event: ServerEvent) -> dict[str, Any]:
    """The event as a client reads it. Fails where OpenAI's model of that type does not fit it exactly."""
    return checked_text(msgspec.json.encode(event))


def checked_text(text: str | bytes) -> dict[str, Any]:
    """As `checked`, of what came over a socket. Events of ours alone are passed on: OpenAI has no model of them."""
    data: dict[str, Any] = json.loads(text)
    if data["type"].startswith(OWN):
        return data
    model = MODELS[data["type"]].model_validate_json(text, strict=True)
    beyond = set(_extra(model)) - BEYOND
    assert not beyond, f"{data['type']} has fields that OpenAI's has not: {beyond}"
    for path in PRESENT.get(data["type"], ()):
        inner = data
        for step in path.split("."):
            assert step in inner, f"{data['type']} lacks {path}"
            inner = inner[step]
    if "session" in data:
        RealtimeSessionCreateResponse.model_validate(data["session"], strict=True)
    assert data["event_id"]
    return data


def _extra(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _extra(item, path)
    if isinstance(value, BaseModel):
        yield from (f"{path}{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from _extra(getattr(value, name), f"{path}{name}.")
