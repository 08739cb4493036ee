"""Every setting of the program, read once, into one frozen `ServerConfig`.

A setting is a field of one of the dataclasses below, and its name is the same everywhere: ``max_sessions`` is the flag
``--max-sessions``, the variable ``DUPLEX_MAX_SESSIONS``, and ``max_sessions`` in the table ``[limits]`` of the TOML
file that ``--config`` or ``DUPLEX_CONFIG`` names. A flag goes before the environment, that before the file, and that
before the default. This is the only module that reads the environment.
"""

from __future__ import annotations

import argparse
import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duplex.errors import ConfigError
from duplex.settings import PREFIX, Setting, check, setting, settings_of

_MIB = 1 << 20
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ORIGIN = re.compile(r"\*|https?://[^/\s]+")


def default_web_dir() -> Path:
    """The browser's files: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "_web"
    return installed if installed.is_dir() else package.parent / "web"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Where and to whom the server speaks."""

    host: str = setting("127.0.0.1", "address to listen on; another than loopback needs an API key")
    port: int = setting(8000, "TCP port; 0 takes any free one", least=0, most=65535)
    api_key: str | None = setting(None, "key that each client must show", secret=True)
    api_key_file: Path | None = setting(None, "file that holds the API key, and nothing else")
    insecure: bool = setting(False, "listen beyond loopback without an API key")
    allowed_origins: tuple[str, ...] = setting(
        (), "web origins that may connect besides the server's own, comma-separated, as in https://example.org"
    )
    max_message_bytes: int = setting(16 * _MIB, "largest message taken from a client", least=1024, most=1024 * _MIB)
    slow_reader_s: float = setting(10.0, "a client that takes nothing for this long is cut off", least=0.1, most=600)
    shutdown_s: float = setting(10.0, "patience with open sessions when the server stops", least=0, most=600)
    web_dir: Path | None = setting(None, "directory of the browser's files, in place of the bundled ones")

    def __post_init__(self) -> None:
        check("http", self)
        # The key travels in a header, and from a browser in a WebSocket subprotocol, which is a token (RFC 6455, 4.1).
        if self.api_key is not None and not _TOKEN.fullmatch(self.api_key):
            raise ConfigError(
                "http.api_key is empty or has characters that cannot travel: use letters, digits, - and _"
            )
        for origin in self.allowed_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"http.allowed_origins has {origin!r}: write https://example.org, without a path, or *"
                )
        if self.api_key is None and not self.insecure and not _is_loopback(self.host):
            raise ConfigError(
                f"http.host is {self.host!r}, which other machines can reach, and there is no API key: "
                f"set {PREFIX}API_KEY or --api-key-file, or say --insecure to do without"
            )

    @property
    def web_path(self) -> Path:
        """The directory to serve on ``/``."""
        return self.web_dir or default_web_dir()


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """What one server and one session may use."""

    max_sessions: int = setting(256, "sessions at one time; one more has to wait", least=1, most=4096)
    queue_length: int = setting(16, "clients that may wait for a session; one more is refused", least=0, most=4096)
    queue_wait_s: float = setting(60.0, "longest wait for a session", least=1, most=3600)
    audio_ahead_s: float = setting(0.5, "audio sent ahead of the playback clock", least=0.05, most=10)
    provisional: str = setting(
        "answer",
        "what begins in a pause, before it is certain that the turn is over: the answer, recognition alone, or nothing",
        choices=("answer", "recognition", "off"),
    )
    mailbox_events: int = setting(256, "events of one session that may wait", least=8, most=65536)
    max_turn_s: float = setting(60.0, "longest turn of the user; a longer one is ended", least=1, most=600)
    idle_s: float = setting(300.0, "a session in which neither side does anything is closed", least=1, most=86400)
    grace_s: float = setting(30.0, "how long a session waits for a client that was cut off", least=0, most=3600)
    session_lifetime_s: float = setting(3600.0, "longest session", least=1, most=604800)

    def __post_init__(self) -> None:
        check("limits", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeConfig:
    """How the machine is shared between the stages."""

    workers: int = setting(2, "threads that run the stages' models", least=1, most=256)
    llama_threads: int = setting(1, "threads of llama.cpp while it generates", least=1, most=256)
    llama_batch_threads: int = setting(1, "threads of llama.cpp while it reads a prompt", least=1, most=256)
    context_tokens: int = setting(2048, "context of the language model, per session", least=256, most=131072)
    prefix_caches: int = setting(
        4, "sessions whose history the language model keeps at hand, and that it answers at once", least=1, most=256
    )
    connector_budget_bytes: int | None = setting(
        None,
        "payload bytes held between stages; 16 MiB a session, up to 512, unless it is set",
        least=4 * _MIB,
        most=2**40,
    )
    cores: float | None = setting(None, "cores that sessions may use together; all by default", least=0.1, most=4096)
    headroom: float = setting(0.2, "part of the compute that is kept free for bursts", least=0, most=0.9)
    oversubscribe: float = setting(
        1.0, "a session is reckoned at the compute of talking, divided by this, or at what it takes", least=1, most=1000
    )
    placement: str | None = setting(
        None,
        "where stages run: all in the server's process, or each in one of its own; as the graph says unless it is set",
        choices=("inline", "process"),
    )
    replicas: int | None = setting(
        None, "processes of each stage that has its own; as the graph says unless it is set", least=1, most=16
    )
    async_chunk: str | None = setting(
        None,
        "whether a stage gets its input piece by piece, or all of it at its end; as the graph says unless it is set",
        choices=("on", "off"),
    )
    state_budget_bytes: int = setting(512 * _MIB, "memory of all sessions' own state", least=_MIB, most=2**40)

    def __post_init__(self) -> None:
        check("compute", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The whole configuration. A value out of its range raises ConfigError here, wherever it came from."""

    http: HttpConfig = field(default_factory=HttpConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    model: str = setting("voice", "family of models that sessions talk to")
    models_dir: Path | None = setting(None, "directory of model files to use in place of the cache, as it is")
    cache_dir: Path = setting(Path("~/.cache/duplex"), "directory of this program's cache")
    otlp_endpoint: str | None = setting(
        None, "where a trace of each turn goes, such as http://127.0.0.1:4318/v1/traces (needs duplex[otel])"
    )
    log_level: str = setting("info", "least severe message logged", choices=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        check("", self)

    @property
    def models_path(self) -> Path:
        """The directory that the model store uses."""
        return self.models_dir or self.cache_dir.expanduser() / "models"


_TABLES: dict[str, type[Any]] = {"http": HttpConfig, "limits": LimitsConfig, "compute": ComputeConfig, "": ServerConfig}
"""The settings' owners by the name of their TOML table; those of `ServerConfig` itself stand before any table."""

_SETTINGS: dict[str, Setting] = {one.name: one for table in _TABLES for one in settings_of(table, _TABLES[table])}


def add_arguments(parser: argparse.ArgumentParser, *, only: Collection[str] | None = None) -> None:
    """Give `parser` ``--config`` and a flag for every setting, or for those in `only`; a secret never has one."""
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings")
    for one in _SETTINGS.values():
        if one.secret or (only is not None and one.name not in only):
            continue
        if one.kind is bool:
            parser.add_argument(one.flag, action=argparse.BooleanOptionalAction, default=None, help=one.text)
        else:
            shown = "" if one.default in (None, ()) else f" [{one.default}]"
            parser.add_argument(one.flag, metavar="VALUE", help=one.text + shown)


def from_arguments(arguments: argparse.Namespace) -> ServerConfig:
    """The configuration for parsed flags, this process's environment and its TOML file. Raises ConfigError."""
    return load(flags=vars(arguments), environ=os.environ)


def load(*, flags: Mapping[str, object], environ: Mapping[str, str]) -> ServerConfig:
    """Merge the sources.

    Args:
        flags: parsed flags by setting, and ``config``; None stands for a flag that was not given, and a name that is no
            setting is some other command's.
        environ: the environment.

    Raises:
        ConfigError: an unknown setting, a wrong type, a value out of range, or a file that cannot be read.
    """
    values: dict[str, object] = {}
    cache_home = Path(environ.get("XDG_CACHE_HOME", ""))
    if cache_home.is_absolute():
        values["cache_dir"] = cache_home / "duplex"
    file = flags.get("config") or environ.get(PREFIX + "CONFIG")
    if file:
        values |= _from_file(Path(str(file)))
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable != PREFIX + "CONFIG":
            name = variable.removeprefix(PREFIX).lower()
            if name not in _SETTINGS:
                remedy = _remedy(name, {known: one.variable for known, one in _SETTINGS.items()})
                raise ConfigError(f"{variable} is set, but there is no such setting: {remedy}")
            values[name] = _SETTINGS[name].convert(environ[variable], variable)
    for name, one in _SETTINGS.items():
        if flags.get(name) is not None:
            values[name] = one.convert(flags[name], one.flag)
    return _build(values)


def _build(values: dict[str, object]) -> ServerConfig:
    key_file = values.get("api_key_file")
    if key_file is not None:
        if "api_key" in values:
            raise ConfigError("http.api_key and http.api_key_file are both set: keep one of them")
        values["api_key"] = _read_key(Path(str(key_file)))
    owned: dict[str, dict[str, Any]] = {table: {} for table in _TABLES}
    for name, value in values.items():
        owned[_SETTINGS[name].table][name] = value
    parts = {table: _TABLES[table](**owned[table]) for table in _TABLES if table}
    return ServerConfig(**parts, **owned[""])


def _from_file(file: Path) -> dict[str, object]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as refusal:
        raise ConfigError(f"the configuration file {file} cannot be read: {refusal.strerror}") from refusal
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise ConfigError(f"the configuration file {file} is not TOML: {fault}") from fault
    values: dict[str, object] = {}
    for name, value in content.items():
        if name not in _TABLES:
            values |= _from_table("", {name: value}, file)
        elif isinstance(value, dict):
            values |= _from_table(name, value, file)
        else:
            raise ConfigError(f"{name} in {file} is a value: make it a table, [{name}]")
    return values


def _from_table(table: str, content: Mapping[str, object], file: Path) -> dict[str, object]:
    known = {name: one for name, one in _SETTINGS.items() if one.table == table}
    values: dict[str, object] = {}
    for name, value in content.items():
        if name not in known:
            dotted = f"{table}.{name}" if table else name
            remedy = _remedy(name, {name: one.dotted for name, one in _SETTINGS.items()})
            raise ConfigError(f"{dotted} in {file} is no setting: {remedy}")
        values[name] = converted = known[name].convert(value, str(file))
        if isinstance(converted, Path):
            # A path in a file is meant from where the file lies, whatever directory the program starts in.
            values[name] = file.parent / converted
    return values


def _remedy(name: str, spelled: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, spelled, n=1)
    return f"did you mean {spelled[near[0]]}?" if near else "see `duplex serve --help` for all of them"


def _read_key(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not text"
        raise ConfigError(f"the API key file {file} cannot be read: {reason}") from fault


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
