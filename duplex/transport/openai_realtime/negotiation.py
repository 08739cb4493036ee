"""The configuration that is in force, and those that the client has asked for since."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, replace

from duplex.errors import ClientError
from duplex.protocol.openai_realtime import session as wire
from duplex.protocol.openai_realtime.client import SessionUpdate
from duplex.session.events import Configure
from duplex.session.settings import SessionSettings
from duplex.transport.info import Served
from duplex.transport.openai_realtime.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """`token`: the id that the session was asked under, like none of the client's; `event_id`: its own, if any."""

    token: str
    event_id: str | None
    configuration: Configuration


class Negotiation:
    """Each patch goes onto what will be in force once the session has answered all patches before it."""

    def __init__(self, *, served: Served) -> None:
        self.served = served
        self.session_id = ""
        self.now = Configuration(settings=SessionSettings())
        self._asked: deque[_Asked] = deque()

    @property
    def latest(self) -> Configuration:
        """What will be in force if the session agrees to all that was asked."""
        return self._asked[-1].configuration if self._asked else self.now

    def open(self, session_id: str, settings: SessionSettings) -> wire.Session:
        """The session has begun."""
        self.session_id = session_id
        self.now = Configuration(settings=settings)
        return self._shown()

    def ask(self, event: SessionUpdate) -> Configure:
        """Put a patch to the session. Raises ClientError where it is refused here; nothing has changed then."""
        patched = self.latest.patched(event.session, self.served)
        token = secrets.token_hex()
        self._asked.append(_Asked(token=token, event_id=event.event_id, configuration=patched))
        return Configure(settings=patched.settings, event_id=token)

    def agreed(self, settings: SessionSettings) -> wire.Session:
        """The session has taken the oldest patch; `settings` is what came of it."""
        changed = self._asked.popleft().configuration if self._asked else self.now
        self.now = replace(changed, settings=settings)
        return self._shown()

    def refused(self, error: ClientError) -> str | None:
        """Drop the patch that the session has refused, if it was one; returns the client's id of the event at fault."""
        for asked in self._asked:
            if asked.token == error.event_id:
                self._asked.remove(asked)
                return asked.event_id
        return error.event_id

    def _shown(self) -> wire.Session:
        return self.now.shown(self.session_id, self.served)
