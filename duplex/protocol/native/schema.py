"""JSON Schemas of the messages, made from their structs: ``python -m duplex.protocol.native.schema DIRECTORY``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from duplex.protocol.native import VERSION
from duplex.protocol.native.client import AnyClientMessage
from duplex.protocol.native.server import AnyServerMessage

SIDES: dict[str, Any] = {"client": AnyClientMessage, "server": AnyServerMessage}


def schema(side: str) -> str:
    """The schema of one side's messages, as text."""
    made = msgspec.json.schema(SIDES[side])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"duplex native protocol, version {VERSION}: what the {side} says",
    }
    return json.dumps(head | made, indent=2) + "\n"


def write(directory: Path) -> None:
    """Write both files."""
    for side in SIDES:
        (directory / f"{side}.schema.json").write_text(schema(side), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "protocol"))
