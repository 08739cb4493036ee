"""OpenAI Realtime (GA) without a socket: the client's text in, session events out, and back."""

from __future__ import annotations

from collections.abc import Iterable

from duplex.errors import ClientError, ConfigError
from duplex.protocol.openai_realtime.server import ErrorEvent, ServerEvent
from duplex.protocol.openai_realtime.session import WIRE_HZ
from duplex.session.events import ClientEvent
from duplex.session.notices import Notice
from duplex.session.port import Audio
from duplex.transport.info import Served
from duplex.transport.openai_realtime.incoming import Incoming
from duplex.transport.openai_realtime.negotiation import Negotiation
from duplex.transport.openai_realtime.outgoing import Outgoing


class OpenAIDialect:
    """The wire's own state of one connection. Calls may come in any order, from one thread.

    Args:
        served: what there is to be had.

    Raises:
        ConfigError: the sessions speak at another rate than the wire's.
    """

    def __init__(self, *, served: Served) -> None:
        if served.output_hz != WIRE_HZ:
            raise ConfigError(f"sessions speak at {served.output_hz} Hz; this protocol carries only {WIRE_HZ} Hz")
        negotiation = Negotiation(served=served)
        self._incoming = Incoming(negotiation=negotiation)
        self._outgoing = Outgoing(negotiation=negotiation)

    def decode(self, data: str | bytes) -> Iterable[ClientEvent]:
        """One message of the client, as events for the session. Audio is resampled while they are iterated over.

        Raises:
            ClientError: the message is refused, by this call and never later; nothing has changed.
        """
        return self._incoming.decode(data)

    def encode(self, told: Notice | Audio) -> list[ServerEvent]:
        """What the session tells, as the wire's events, to be sent in this order.

        Nothing comes of audio whose answer is over, nor of a transcript that the client has switched off.
        """
        return self._outgoing.encode(told)

    def error(self, error: ClientError) -> ErrorEvent:
        """The event that tells the client of a refusal."""
        return self._outgoing.error(error)
