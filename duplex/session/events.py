"""What may happen to a session. The verbs are open (`core.Session`), update, signal and close."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duplex.connector.base import Handle
from duplex.connector.payload import Completeness, EndOfTurn, Speech, Text, Transcript
from duplex.errors import ClientError, StageError
from duplex.session.fence import Fence
from duplex.session.item import Item
from duplex.session.settings import ResponseOptions, SessionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAudio:
    """update: the microphone goes on. `pcm`: int16 [n] at the session's input rate."""

    pcm: NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """update: new settings, whole (the dialect has merged the client's patch)."""

    settings: SessionSettings
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateItem:
    """update: a message enters the conversation.

    Attributes:
        item: its `item_id` may be empty: the session then gives it one.
        after: id of the item that it follows, ``root`` for the beginning, None for the end.
    """

    item: Item
    after: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveItem:
    """signal: show an item as the session keeps it."""

    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteItem:
    """signal: take an item out of the conversation."""

    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateItem:
    """signal: of this answer only so much was heard."""

    item_id: str
    content_index: int
    audio_end_ms: int
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAudio:
    """signal: the user's turn ends here."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearAudio:
    """signal: forget the audio that has not been committed."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateResponse:
    """signal: answer now."""

    options: ResponseOptions = ResponseOptions()
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelResponse:
    """signal: stop answering. `response_id`: None for whichever is active."""

    response_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """signal: so much of an answer's audio has been played, `samples` from its beginning on."""

    item_id: str
    samples: int
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A message of the client that its transport could not take: it is answered in its turn, and changes nothing."""

    error: ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """close: the session is over. `reason`: a short word for the log and the metrics."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """Another connection holds the session from now on; turns that begin are of its `generation`."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """The connection was lost: nobody hears what is played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """A stage said something small: what it heard, or the words it made."""

    fence: Fence
    payload: Speech | EndOfTurn | Transcript | Completeness | Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """A stage made audio. The bytes stay in the connector until they are played.

    Attributes:
        fence: under which it was made.
        handle: names the bytes; its `samples` and `text_end` are what the session needs to know of them.
    """

    fence: Fence
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A request has completed: all its output has been reported before.

    Attributes:
        reason: ``stop``, or ``length`` where a limit on the output was reached.
        input_tokens, cached_tokens, output_tokens: as counted by its engines, summed.
    """

    fence: Fence
    reason: str = "stop"
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request has failed."""

    fence: Fence
    error: StageError


ClientEvent = (
    AppendAudio
    | Configure
    | CreateItem
    | RetrieveItem
    | DeleteItem
    | TruncateItem
    | CommitAudio
    | ClearAudio
    | CreateResponse
    | CancelResponse
    | Played
    | Unreadable
    | Close
)
LeaseEvent = Attached | Detached
StageReport = Signalled | Spoke | Completed | Failed
Event = ClientEvent | LeaseEvent | StageReport
