"""What a client is told before the connection ends."""

from __future__ import annotations

from duplex.protocol.openai_realtime.server import ErrorDetails
from duplex.session.notices import Closed
from duplex.transport.closing import INTERNAL, TRY_AGAIN_LATER, code_of


def details(closed: Closed) -> ErrorDetails | None:
    """The error event that goes before the close frame; None where the end was wished for."""
    code = code_of(closed)
    if closed.reason == "client":
        return None
    kind = "server_error" if code in (INTERNAL, TRY_AGAIN_LATER) else "invalid_request_error"
    return ErrorDetails(message=closed.message, type=kind, code=f"session_{closed.reason}")
