"""The native protocol, version 1: JSON control messages (`client`, `server`), binary media frames (`media`)."""

from __future__ import annotations

VERSION = 1

SUBPROTOCOL = "duplex.v1"
"""The WebSocket subprotocol; a client need not ask for it."""

PATH = "/v1/duplex"
