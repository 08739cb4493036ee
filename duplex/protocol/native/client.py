"""What a client says. The first message is `Open` or `Resume`. Unknown fields are ignored.

A client that wants nothing done twice, and nothing lost, numbers what it sends (`sequence`, shared with its media
frames): a number that the server has taken already is ignored, so after a resume everything later than `taken` can be
sent again.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from duplex.protocol.native.item import ItemId, NewItem
from duplex.protocol.native.settings import Instructions, MaxOutputTokens, Metadata, Modality, SettingsPatch, ToolChoice

Sequence = Annotated[int, Meta(ge=0, lt=2**53)]


class ClientMessage(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Any message. `id`: the client's own name for it, given back in an error about it; `sequence`: 0 for none."""

    id: Annotated[str, Meta(max_length=128)] | None = None
    sequence: Sequence = 0


class Open(ClientMessage, frozen=True, kw_only=True, tag="open"):
    """open: a session begins.

    Attributes:
        version: of the protocol that the client speaks.
        input_hz: rate of its microphone.
        playback: ``acknowledged`` if it will say what it has played; else the server reckons it.
        resumable: whether the session is to wait for a client that was cut off.
        settings: patch of the server's own.
    """

    version: int
    input_hz: Literal[16000, 24000] = 24000
    playback: Literal["acknowledged", "reckoned"] = "reckoned"
    resumable: bool = True
    settings: SettingsPatch | None = None


class Resume(ClientMessage, frozen=True, kw_only=True, tag="resume"):
    """A client that was cut off, or another in its place, goes on.

    Attributes:
        token: the newest that was given to it.
        seen: the highest `sequence` that it received; 0 for none.
    """

    version: int
    session_id: Annotated[str, Meta(max_length=128)]
    token: Annotated[str, Meta(max_length=256)]
    seen: Sequence = 0


class Update(ClientMessage, frozen=True, kw_only=True, tag="update"):
    """update: other settings, a new item, or both, in this order. The microphone's frames are updates too.

    Attributes:
        after: id of the item that the new one follows, ``root`` for the beginning, null for the end.
    """

    settings: SettingsPatch | None = None
    item: NewItem | None = None
    after: ItemId | None = None


class Commit(Struct, frozen=True, kw_only=True, tag_field="kind", tag="commit"):
    """The user's turn ends here."""


class Clear(Struct, frozen=True, kw_only=True, tag_field="kind", tag="clear"):
    """Forget the audio that has not been committed."""


class Respond(Struct, frozen=True, kw_only=True, tag_field="kind", tag="respond"):
    """Answer now; what is null is the session's own."""

    instructions: Instructions | None = None
    modality: Modality | None = None
    max_output_tokens: MaxOutputTokens | None = None
    tool_choice: ToolChoice | None = None
    metadata: Metadata = {}


class Cancel(Struct, frozen=True, kw_only=True, tag_field="kind", tag="cancel"):
    """Stop answering. `response_id`: null for whichever is active."""

    response_id: ItemId | None = None


class Retrieve(Struct, frozen=True, kw_only=True, tag_field="kind", tag="retrieve"):
    """Show an item."""

    item_id: ItemId


class Delete(Struct, frozen=True, kw_only=True, tag_field="kind", tag="delete"):
    """Take an item out of the conversation."""

    item_id: ItemId


class Truncate(Struct, frozen=True, kw_only=True, tag_field="kind", tag="truncate"):
    """Of this answer only so much was heard."""

    item_id: ItemId
    audio_end_ms: Annotated[int, Meta(ge=0, lt=2**53)]


AnySignal = Commit | Clear | Respond | Cancel | Retrieve | Delete | Truncate


class Signal(ClientMessage, frozen=True, kw_only=True, tag="signal"):
    """signal: something is to happen now."""

    signal: AnySignal


class Close(ClientMessage, frozen=True, kw_only=True, tag="close"):
    """close: the session is over, whatever its grace time."""


class Ack(Struct, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """Everything up to this number of the server's has arrived, `opened` or `resumed` with its token among it."""

    sequence: Sequence


class Played(Struct, frozen=True, kw_only=True, tag_field="type", tag="played"):
    """So many samples of an answer have been played, counted from its beginning."""

    item_id: ItemId
    samples: Annotated[int, Meta(ge=0, lt=2**53)]


class Heartbeat(Struct, frozen=True, kw_only=True, tag_field="type", tag="heartbeat"):
    """The client is alive; the server answers with the same `at`."""

    at: float = 0.0


AnyClientMessage = Open | Resume | Update | Signal | Close | Ack | Played | Heartbeat
