"""What llama.cpp tells and does over HTTP alone: count tokens, show its slots, copy what is in one."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duplex.errors import StageError

_TIMEOUT_S = 10.0
_FILE = "slot.kv"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReport:
    """What llama.cpp says of one slot.

    Attributes:
        room: tokens that it has room for.
        tokens: that are in it now; 0 as long as it has run nothing, for then llama.cpp says nothing of it.
        busy: whether it works on them.
    """

    room: int
    tokens: int
    busy: bool


class SideDoor:
    """The server behind the binding, by its unix socket. Every method waits for the engine's loop, a batch at most, and
    may be called from any thread, the copying ones from one at a time.

    Args:
        path: of the socket, in a directory that this user alone can enter; copies of slots pass through it.
        key: that the server wants to be shown.
    """

    def __init__(self, *, path: Path, key: str) -> None:
        self._path = path
        self._key = key

    def tokens(self, text: str) -> list[int]:
        """The tokens of `text` in a prompt, special ones included. Raises StageError."""
        body = {"content": text, "add_special": False, "parse_special": True}
        tokens: list[int] = self._ask("POST", "/tokenize", body, "count tokens")["tokens"]
        return tokens

    def slots(self) -> list[SlotReport]:
        """All slots, in order. Raises StageError."""
        return [
            SlotReport(room=slot["n_ctx"], tokens=slot.get("n_prompt_tokens", 0), busy=slot["is_processing"])
            for slot in self._ask("GET", "/slots", None, "show its slots")
        ]

    def save(self, slot: int) -> tuple[int, bytes]:
        """How many tokens are in an idle slot, and a copy of it. Raises StageError."""
        file = self._path.parent / _FILE
        try:
            saved = self._ask("POST", f"/slots/{slot}?action=save", {"filename": _FILE}, "copy a slot")
            return saved["n_saved"], file.read_bytes()
        except OSError as error:
            raise StageError(f"the copy of a slot cannot be read: {error.strerror}", stage="llama") from error
        finally:
            file.unlink(missing_ok=True)

    def load(self, slot: int, copy: bytes) -> int:
        """Put a copy into an idle slot in place of what was there; returns its tokens. Raises StageError."""
        file = self._path.parent / _FILE
        try:
            file.write_bytes(copy)
            restored = self._ask("POST", f"/slots/{slot}?action=restore", {"filename": _FILE}, "take a copy of a slot")
            return int(restored["n_restored"])
        except OSError as error:
            raise StageError(f"the copy of a slot cannot be written: {error.strerror}", stage="llama") from error
        finally:
            file.unlink(missing_ok=True)

    def _ask(self, method: str, path: str, body: object, what: str) -> Any:
        connection = _UnixConnection(self._path)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            if response.status != http.client.OK:
                raise ValueError
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise StageError(f"llama.cpp does not {what}", stage="llama") from error
        finally:
            connection.close()
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
