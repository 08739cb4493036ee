"""What the server says. Unknown messages and unknown fields are to be ignored by clients: servers may be newer.

A message with a `sequence` counts: its number is one higher than that of the message or media frame before, but where
things are sent again after a resume, which leaves out the audio of interrupted turns. Those without are about the
connection, not the session.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from duplex.protocol.native.item import Item, Response
from duplex.protocol.native.settings import Settings


class ServerMessage(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Any message of the session."""

    sequence: int


class Terms(Struct, frozen=True, kw_only=True):
    """What holds for this session.

    Attributes:
        input_hz, output_hz: rates of the audio.
        playback: whether the client's `played` counts.
        ahead_ms: most audio that is sent and not yet played.
        max_message_bytes: longest text message that is taken.
        grace_s: how long the session waits for a client that was cut off; 0 for not at all.
        heartbeat_s: a client that has nothing else to say says `heartbeat` as often; one that says nothing for three
            times as long is taken to be gone.
    """

    input_hz: int
    output_hz: int
    playback: Literal["acknowledged", "reckoned"]
    ahead_ms: int
    max_message_bytes: int
    grace_s: float
    heartbeat_s: float


class Queued(Struct, frozen=True, kw_only=True, tag_field="type", tag="queued"):
    """There is no place yet. Comes again and again, and then `opened`, or `closed` with the reason ``queue_timeout``.

    Attributes:
        position: 1 for the next to be let in.
        eta_s: when that may be expected, in seconds from now; null where nothing is known.
    """

    position: int
    eta_s: float | None


class Opened(ServerMessage, frozen=True, kw_only=True, tag="opened"):
    """The session has begun.

    Attributes:
        generation: number of this connection among the session's.
        token: for `resume`; empty where the session cannot be resumed.
    """

    version: int
    session_id: str
    conversation_id: str
    generation: int
    token: str
    terms: Terms
    settings: Settings


class Resumed(Struct, frozen=True, kw_only=True, tag_field="type", tag="resumed"):
    """The session goes on here, on the terms that were agreed when it began.

    Attributes:
        token: for the next `resume`; the one before is spent once this has been acknowledged.
        taken: the client's highest number that the server has taken.
        input_samples: samples of the microphone that the server has taken.
        resync: what was missed is not kept any more: `snapshot` comes instead.
    """

    version: int
    session_id: str
    generation: int
    token: str
    taken: int
    input_samples: int
    resync: bool
    terms: Terms


class Snapshot(ServerMessage, frozen=True, kw_only=True, tag="snapshot"):
    """All that there is to know of the session. `speaking`: the item that the user's speech is becoming, or null."""

    session_id: str
    conversation_id: str
    settings: Settings
    items: list[Item]
    response: Response | None
    speaking: str | None


class Updated(ServerMessage, frozen=True, kw_only=True, tag="updated"):
    settings: Settings


class Error(Struct, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """What a client wanted was refused and changed nothing, or something failed that it did not ask for.

    Attributes:
        id: the client's own name of the message at fault, or null.
        param: the field at fault, dotted, or null.
        retry_after_s: when to try again, where that makes sense.
        sequence: 0 where there is no session yet.
    """

    code: str
    message: str
    param: str | None = None
    id: str | None = None
    retry_after_s: float | None = None
    sequence: int = 0


class SpeechStarted(ServerMessage, frozen=True, kw_only=True, tag="speech_started"):
    item_id: str
    at_ms: int


class SpeechStopped(ServerMessage, frozen=True, kw_only=True, tag="speech_stopped"):
    item_id: str
    at_ms: int


class Committed(ServerMessage, frozen=True, kw_only=True, tag="committed"):
    item_id: str
    previous_item_id: str | None


class Cleared(ServerMessage, frozen=True, kw_only=True, tag="cleared"):
    pass


class ItemAdded(ServerMessage, frozen=True, kw_only=True, tag="item_added"):
    item: Item
    previous_item_id: str | None


class ItemDone(ServerMessage, frozen=True, kw_only=True, tag="item_done"):
    item: Item
    previous_item_id: str | None


class ItemRetrieved(ServerMessage, frozen=True, kw_only=True, tag="item_retrieved"):
    item: Item


class ItemDeleted(ServerMessage, frozen=True, kw_only=True, tag="item_deleted"):
    item_id: str


class ItemTruncated(ServerMessage, frozen=True, kw_only=True, tag="item_truncated"):
    item_id: str
    audio_end_ms: int


class Transcribed(ServerMessage, frozen=True, kw_only=True, tag="transcribed"):
    item_id: str
    text: str
    audio_ms: int


class TranscriptionFailed(ServerMessage, frozen=True, kw_only=True, tag="transcription_failed"):
    item_id: str
    message: str


class ResponseCreated(ServerMessage, frozen=True, kw_only=True, tag="response_created"):
    """Always before anything else of it."""

    response: Response


class ResponseItem(ServerMessage, frozen=True, kw_only=True, tag="response_item"):
    response_id: str
    item_id: str
    previous_item_id: str | None


class ResponseText(ServerMessage, frozen=True, kw_only=True, tag="response_text"):
    """More words: of the text, or of the audio's transcript."""

    response_id: str
    item_id: str
    text: str


class ResponseDone(ServerMessage, frozen=True, kw_only=True, tag="response_done"):
    """Always the last of it; all its audio was sent before."""

    response: Response


class Interrupted(ServerMessage, frozen=True, kw_only=True, tag="interrupted"):
    """Play nothing more of this epoch or an earlier one. `samples`: how much was heard, as far as is known."""

    response_id: str
    item_id: str
    epoch: int
    samples: int


class Ending(ServerMessage, frozen=True, kw_only=True, tag="ending"):
    """The session will close in `in_s`: it is old (``expired``), or nothing happens in it (``idle``)."""

    reason: Literal["idle", "expired"]
    in_s: float


class Closed(ServerMessage, frozen=True, kw_only=True, tag="closed"):
    """The last message; with the reason ``replaced`` the session goes on elsewhere.

    `sequence` is 0 then, and where the session has not begun.
    """

    reason: str
    message: str


class Heartbeat(Struct, frozen=True, kw_only=True, tag_field="type", tag="heartbeat"):
    """Answer to the client's. `taken`: its highest number that the server has taken."""

    at: float
    taken: int


AnyServerMessage = (
    Queued
    | Opened
    | Resumed
    | Snapshot
    | Updated
    | Error
    | SpeechStarted
    | SpeechStopped
    | Committed
    | Cleared
    | ItemAdded
    | ItemDone
    | ItemRetrieved
    | ItemDeleted
    | ItemTruncated
    | Transcribed
    | TranscriptionFailed
    | ResponseCreated
    | ResponseItem
    | ResponseText
    | ResponseDone
    | Interrupted
    | Ending
    | Closed
    | Heartbeat
)
