"""What the transports ask of the server, besides sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What there is to be had here.

    Attributes:
        models: names under which sessions are opened; the first is the default.
        voices: the first is the default.
        languages: ISO 639-1 codes that speech is recognised in; the first is the default.
        transcriber: name to show for the recognition.
        input_hz, output_hz: rates of the sessions' audio, as in `SessionLimits`.
        ahead_ms: most audio that is sent before its time.
    """

    models: tuple[str, ...] = ("duplex",)
    voices: tuple[str, ...] = ("default",)
    languages: tuple[str, ...] = ("en",)
    transcriber: str = "duplex"
    input_hz: int = 16_000
    output_hz: int = 24_000
    ahead_ms: int = 500


class ServerInfo(Protocol):
    """The server, as its HTTP routes see it. But for `inspect`, all of it is answered at once, from memory."""

    @property
    def ready(self) -> bool:
        """Whether sessions may be opened: the models are loaded, and a warm turn has run."""

    @property
    def served(self) -> Served: ...

    @property
    def sessions(self) -> int:
        """Sessions open now."""

    def turn(self, response_id: str) -> object | None:
        """The waterfall of one turn, as anything that msgspec can write as JSON; None where there is none."""

    def census(self) -> object:
        """Every session and what it takes, and what is left, as anything that msgspec can write as JSON."""

    async def inspect(self) -> object:
        """Whether all state that is held is in the books, as anything that msgspec can write as JSON; may wait."""

    def metrics(self) -> str:
        """All metrics, in the Prometheus text format 0.0.4."""


class HttpSettings(Protocol):
    """What the transports need of the configuration.

    Attributes:
        api_key: what every client of ``/v1`` must show; None for nobody.
        allowed_origins: web origins that may open sessions besides the server's own, ``*`` for all.
        max_message_bytes: longest WebSocket message taken; a longer one closes the connection with 1009.
        slow_reader_s: a client that takes nothing for so long is disconnected.
    """

    @property
    def api_key(self) -> str | None: ...
    @property
    def allowed_origins(self) -> tuple[str, ...]: ...
    @property
    def max_message_bytes(self) -> int: ...
    @property
    def slow_reader_s(self) -> float: ...
