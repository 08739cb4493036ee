"""The runner's face: all that a transport sees of a session."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from duplex.errors import AdmissionRefused
from duplex.session.events import ClientEvent
from duplex.session.fence import Fence
from duplex.session.notices import Notice

NOTICE_BYTES = 512
"""What a notice counts for where bytes are bounded: most are smaller on the wire, and what they quote is bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Audio to send now.

    Attributes:
        fence: the audio's own.
        pcm: int16 [n] at the session's output rate.
        start: position of its first sample in the audio of its answer.
    """

    fence: Fence
    response_id: str
    item_id: str
    pcm: NDArray[np.int16]
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing told, as a session that can be resumed counts it.

    Attributes:
        sequence: its number, from 1; 0 while it has not been sent.
        again: whether it has been sent before.
    """

    told: Notice | Audio
    sequence: int = 0
    again: bool = False

    @property
    def nbytes(self) -> int:
        """What it counts for."""
        return self.told.pcm.nbytes if isinstance(self.told, Audio) else NOTICE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a transport wants to hold its session.

    Attributes:
        resumable: whether the session outlives its connection, for the host's grace time.
        acknowledged: whether the client says what it has played (`events.Played`), and the ledger goes by that and not
            by a reckoned clock.
        wire: what the transport has agreed with the client, kept for the connection that resumes.
    """

    resumable: bool = False
    acknowledged: bool = False
    wire: object = None


class SessionPort(Protocol):
    """One open session, as its transport holds it."""

    @property
    def session_id(self) -> str:
        """Unique in this server."""

    async def send(self, event: ClientEvent) -> bool:
        """Hand an event in; waits while there is no session yet, or no room in its mailbox.

        False where it was not taken: the session is over, or another connection holds it by now.
        """

    async def receive(self) -> Notice | Audio | None:
        """The next thing to tell the client, in order; None when `Closed` has been given and nothing follows.

        Audio of an interrupted turn is taken out before it is given, so what is given is to be sent at once.
        """


class LeasedPort(SessionPort, Protocol):
    """A session that outlives its connection, as one connection holds it.

    A connection that is replaced is given `Closed` with the reason ``replaced``; nothing that it does afterwards has an
    effect.
    """

    @property
    def generation(self) -> int:
        """Number of this connection, among those of the session."""

    @property
    def token(self) -> str:
        """What the client has to show to resume; empty where it cannot."""

    @property
    def grace_s(self) -> float:
        """How long the session waits for a client that was cut off."""

    @property
    def wire(self) -> object:
        """As it was given in `Terms`."""

    @property
    def resynced(self) -> bool:
        """Whether `Snapshot` comes first, because what was missed is not kept any more."""

    async def next(self) -> Entry | None:
        """As `receive`, with its number."""

    def acknowledge(self, sequence: int) -> None:
        """Everything up to this number has arrived, and with it the newest token.

        Raises ClientError for a number from the future.
        """


class SessionHost(Protocol):
    """Opens sessions."""

    def refusal(self) -> AdmissionRefused | None:
        """Why `open` would be refused now; None where it would not, though one may have to wait."""

    def open(self, terms: Terms = ...) -> AbstractAsyncContextManager[LeasedPort]:
        """Queue for a session and run it. Leaving the context leaves the queue, or ends the session and waits for that;
        or, where the session has begun and is resumable, lets it wait for a connection that resumes it.

        Entering does not wait: where no place is free, the session tells `Queued` until there is one, and then
        `Opened`; meanwhile it takes no events. Raises `AdmissionRefused` where the queue is full too.
        """

    def resume(self, session_id: str, *, token: str, seen: int) -> AbstractAsyncContextManager[LeasedPort]:
        """Take over a session whose connection was lost, or is to be replaced; leaving the context is as with `open`.

        Args:
            token: the newest that the client was given.
            seen: number of the last thing that it received; what came after is sent again, or, where that is no longer
                kept, `Snapshot` comes first.

        Entering raises ClientError: no such session, a token or a number that is not its own. Nothing has changed then.
        """
