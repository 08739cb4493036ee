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


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Audio to send now.

    Attributes:
        fence: the audio's own.
        pcm: int16 [n] at the session's output rate.
    """

    fence: Fence
    response_id: str
    item_id: str
    pcm: NDArray[np.int16]


class SessionPort(Protocol):
    """One open session, as its transport holds it."""

    @property
    def session_id(self) -> str:
        """Unique in this server."""

    async def send(self, event: ClientEvent) -> None:
        """Hand an event in; waits while there is no session yet, or no room in its mailbox. After the end it is
        ignored."""

    async def receive(self) -> Notice | Audio | None:
        """The next thing to tell the client, in order; None when `Closed` has been given and nothing follows.

        Audio of an interrupted turn is taken out before it is given, so what is given is to be sent at once.
        """


class SessionHost(Protocol):
    """Opens sessions."""

    def refusal(self) -> AdmissionRefused | None:
        """Why `open` would be refused now; None where it would not, though one may have to wait."""

    def open(self) -> AbstractAsyncContextManager[SessionPort]:
        """Queue for a session and run it; leaving the context ends either and gives its place back.

        Entering does not wait: where no place is free, the session tells `Queued` until there is one, and then
        `Opened`; meanwhile it takes no events. Raises `AdmissionRefused` where the queue is full too.
        """
