"""What OpenAI's own client package writes can be read, whole."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from openai.types.realtime import RealtimeClientEvent
from pydantic import BaseModel

from duplex.protocol.openai_realtime import client

MODELS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(get_args(RealtimeClientEvent)[0])
}
OURS: dict[str, type[client.ClientEvent]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(client.AnyClientEvent)
}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
WRITTEN: list[dict[str, Any]] = [
    {"type": "input_audio_buffer.append", "audio": "AQACAA=="},
    {"type": "input_audio_buffer.commit", "event_id": "e"},
    {"type": "input_audio_buffer.clear"},
    {"type": "output_audio_buffer.clear"},
    {"type": "conversation.item.create", "item": USER, "previous_item_id": "root"},
    {"type": "conversation.item.retrieve", "item_id": "i"},
    {"type": "conversation.item.delete", "item_id": "i"},
    {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 1},
    {"type": "response.create", "response": {"metadata": {"a": "b"}, "max_output_tokens": "inf"}},
    {"type": "response.cancel", "response_id": "r"},
    {
        "type": "session.update",
        "session": {
            "type": "realtime",
            "model": "duplex",
            "output_modalities": ["audio"],
            "instructions": "Be brief.",
            "max_output_tokens": 100,
            "tools": [],
            "tool_choice": "auto",
            "tracing": {"workflow_name": "w"},
            "truncation": {"type": "retention_ratio", "retention_ratio": 0.8},
            "include": ["item.input_audio_transcription.logprobs"],
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "noise_reduction": {"type": "far_field"},
                    "transcription": {"model": "whisper-1", "language": "en", "prompt": "p"},
                    "turn_detection": {
                        "type": "server_vad",
                        "threshold": 0.5,
                        "prefix_padding_ms": 300,
                        "silence_duration_ms": 500,
                        "create_response": True,
                        "interrupt_response": True,
                        "idle_timeout_ms": None,
                    },
                },
                "output": {"format": {"type": "audio/pcm"}, "voice": "marin", "speed": 1.0},
            },
        },
    },
]


@pytest.mark.parametrize("event", WRITTEN, ids=lambda event: event["type"])
def test_an_event_of_openais_package_is_read_as_it_was_written(event: dict[str, Any]) -> None:
    text = MODELS[event["type"]].model_validate(event, strict=True).to_json(exclude_unset=True)
    read = msgspec.json.decode(text, type=client.AnyClientEvent)
    assert type(read) is OURS[event["type"]]
    back = msgspec.to_builtins(read, builtin_types=())
    _assert_within(event, back)


def _assert_within(written: Any, read: Any) -> None:
    """Whatever was written is found again, but for fields that are read on purpose as nothing."""
    if isinstance(written, dict):
        for name, value in written.items():
            if name not in ("model", "strength") or name in read:
                _assert_within(value, read[name])
    else:
        assert read == written


def test_every_event_that_the_package_can_write_is_known() -> None:
    assert set(OURS) == set(MODELS)
    assert {event["type"] for event in WRITTEN} == set(OURS)
