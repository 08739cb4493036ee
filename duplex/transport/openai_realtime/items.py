"""Items of a conversation: from the wire, and onto it."""

from __future__ import annotations

from typing import cast

from duplex.errors import ClientError
from duplex.protocol.openai_realtime import item as wire
from duplex.protocol.openai_realtime.client import ContentIn, ItemCreate, ItemIn
from duplex.session.events import CreateItem
from duplex.session.item import Item, Part, Role
from duplex.transport.openai_realtime.refusal import invalid, unsupported

_TEXT_OF: dict[str, tuple[str, ...]] = {
    "user": ("input_text", "text"),
    "system": ("input_text", "text"),
    "assistant": ("output_text", "text"),
}
"""Content types that each role may write; ``text`` is what older clients say."""


def created(event: ItemCreate) -> CreateItem:
    """The session's event. Raises ClientError for anything but a message of text."""
    return CreateItem(item=_item(event.item), after=event.previous_item_id, event_id=event.event_id)


def _item(item: ItemIn) -> Item:
    if item.type != "message":
        raise unsupported(f"only messages can be put into a conversation, not {item.type[:40]!r}", param="item.type")
    if item.role is None:
        raise ClientError("item.role is missing", code="missing_required_parameter", param="item.role")
    if item.role not in _TEXT_OF:
        raise invalid(f"there is no role {item.role[:40]!r}; there are: {', '.join(_TEXT_OF)}", param="item.role")
    if not item.content:
        raise ClientError("item.content is missing", code="missing_required_parameter", param="item.content")
    parts = tuple(_part(part, item.role, f"item.content[{n}]") for n, part in enumerate(item.content))
    return Item(item_id=item.id or "", role=cast(Role, item.role), status="completed", parts=parts)


def _part(part: ContentIn, role: str, param: str) -> Part:
    wanted = _TEXT_OF[role]
    if part.type in ("input_audio", "output_audio", "audio", "input_image"):
        raise unsupported(
            f"{part.type} cannot be put into a conversation; send text, or speak through input_audio_buffer.append",
            param=f"{param}.type",
        )
    if part.type not in wanted:
        raise invalid(f"a message of role {role} holds {wanted[0]}, not {part.type[:40]!r}", param=f"{param}.type")
    if part.text is None:
        raise ClientError(f"{param}.text is missing", code="missing_required_parameter", param=f"{param}.text")
    return Part(kind="text", text=part.text)


def shown(item: Item) -> wire.MessageItem:
    """The wire's form; an answer that is still being made has no content yet, as OpenAI has it."""
    parts = () if item.role == "assistant" and item.status == "in_progress" else item.parts
    return wire.MessageItem(
        id=item.item_id, status=item.status, role=item.role, content=[_content(part, item.role) for part in parts]
    )


def _content(part: Part, role: Role) -> wire.TextContent | wire.AudioContent:
    output = role == "assistant"
    if part.kind == "text":
        return wire.TextContent(type="output_text" if output else "input_text", text=part.text or "")
    return wire.AudioContent(type="output_audio" if output else "input_audio", transcript=part.text)
