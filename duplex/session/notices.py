"""What a session tells its client, in no dialect: transports put it into theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duplex.errors import ClientError
from duplex.session.item import Item
from duplex.session.settings import Modality, SessionSettings

ResponseStatus = Literal["in_progress", "completed", "cancelled", "incomplete", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """There is no place yet: `position` 1 is the next to get one, in about `eta_s` seconds, None where that is unknown.

    Comes any number of times before `Opened`, or before the `Closed` of somebody who has waited too long.
    """

    position: int
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Always the first notice of a session."""

    session_id: str
    conversation_id: str
    settings: SessionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The settings that hold from now on."""

    settings: SessionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A client's event was refused and changed nothing; or something failed that no event asked for."""

    error: ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStarted:
    """The user speaks. `item_id`: of the item that the speech will become; `at_ms`: with the prefix padding."""

    item_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStopped:
    """The user's turn has ended. `at_ms`: where the speech ended."""

    item_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioCommitted:
    """The input audio is now an item."""

    item_id: str
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioCleared:
    """The uncommitted input audio is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAdded:
    """An item has entered the conversation; an answer's is still being made."""

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDone:
    """An item will not change by itself any more."""

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRetrieved:
    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDeleted:
    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTruncated:
    item_id: str
    content_index: int
    audio_end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcribed:
    """The user's words. `audio_ms`: length of the audio that they were recognised in."""

    item_id: str
    text: str
    audio_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionFailed:
    item_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInfo:
    """A response as it stands.

    Attributes:
        status_reason: ``turn_detected`` or ``client_cancelled`` (cancelled), ``max_output_tokens`` (incomplete),
            else empty.
        error: why it failed, one sentence; else empty.
        item: what it has made so far, or None.
        previous_item_id: the item before that.
        audio_ms: audio sent.
        metadata: the client's own labels.
        epoch: of the turn that it is: audio carries it, and audio of an earlier one is not to be played any more.
    """

    response_id: str
    modality: Modality
    status: ResponseStatus
    status_reason: str = ""
    error: str = ""
    item: Item | None = None
    previous_item_id: str | None = None
    audio_ms: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    max_output_tokens: int = 0
    metadata: tuple[tuple[str, str], ...] = ()
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCreated:
    """An answer begins; always before anything else about it."""

    response: ResponseInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseItemAdded:
    """The answer has an item now (`ItemAdded` follows in the same breath)."""

    response_id: str
    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseText:
    """More words of the answer: its text, or the transcript of its audio."""

    response_id: str
    item_id: str
    text: str
    modality: Modality


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseDone:
    """The answer is over, whatever its status; the last notice about it. All its audio was sent before."""

    response: ResponseInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Nothing more of this answer's audio is to be played, nor of any before it.

    Attributes:
        epoch: of the answer.
        samples: how much of it was heard, as far as is known; the history keeps so much.
    """

    response_id: str
    item_id: str
    epoch: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The session will be closed in `in_s` seconds: because of its age (``expired``), or unless something happens in it
    (``idle``)."""

    reason: Literal["idle", "expired"]
    in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a client can know of a session, for one that has missed something which is not kept any more.

    Attributes:
        items: of the conversation, oldest first; the last may still be in progress.
        response: the answer under way, as far as it has been told; None where there is none.
        speaking: the item that the user's speech is becoming; None where nothing is being said.
    """

    session_id: str
    conversation_id: str
    settings: SessionSettings
    items: tuple[Item, ...]
    response: ResponseInfo | None
    speaking: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The session is over; the last notice. `reason`: a short word; `message`: one sentence for a person."""

    reason: str
    message: str


CLOSING = {
    "client": "The client closed the session.",
    "disconnected": "The connection to the client was lost.",
    "replaced": "Another connection has taken the session over.",
    "idle": "Nothing was received for too long; open a new session to go on.",
    "expired": "The session has reached its longest lifetime; open a new one to go on.",
    "overloaded": "The session's mailbox overflowed; send less at once.",
    "slow_reader": "The client reads too slowly for the audio that it is sent.",
    "shutdown": "The server is shutting down.",
    "state_full": "The server's memory for sessions is spent.",
    "failed": "The stage that listens has failed.",
    "error": "The session failed inside the server.",
}
"""What is said to a client for each reason of `Close`."""


Notice = (
    Queued
    | Opened
    | Configured
    | Refused
    | SpeechStarted
    | SpeechStopped
    | AudioCommitted
    | AudioCleared
    | ItemAdded
    | ItemDone
    | ItemRetrieved
    | ItemDeleted
    | ItemTruncated
    | Transcribed
    | TranscriptionFailed
    | ResponseCreated
    | ResponseItemAdded
    | ResponseText
    | ResponseDone
    | Interrupted
    | Ending
    | Snapshot
    | Closed
)
