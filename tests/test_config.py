"""Where a setting comes from, which values it may have, and what a refusal says."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex.config import HttpConfig, LimitsConfig, ServerConfig, add_arguments, from_arguments, load
from duplex.errors import ConfigError

SECRET = "s3cret-key"


def from_file(tmp_path: Path, text: str) -> ServerConfig:
    file = tmp_path / "duplex.toml"
    file.write_text(text)
    return load(flags={"config": str(file)}, environ={})


def refusal(flags: dict[str, object] | None = None, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(flags=flags or {}, environ=environ or {})
    return str(caught.value)


class TestSources:
    def test_defaults(self) -> None:
        config = load(flags={}, environ={})
        assert config == ServerConfig()
        assert (config.http.host, config.http.port, config.limits.max_sessions) == ("127.0.0.1", 8000, 256)

    def test_a_flag_goes_before_the_environment_before_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "duplex.toml"
        file.write_text("[limits]\nmax_sessions = 1\nidle_s = 11\nmax_turn_s = 21\n")
        environ = {"DUPLEX_CONFIG": str(file), "DUPLEX_MAX_SESSIONS": "2", "DUPLEX_IDLE_S": "12"}
        limits = load(flags={"max_sessions": "3", "idle_s": None}, environ=environ).limits
        assert (limits.max_sessions, limits.idle_s, limits.max_turn_s) == (3, 12.0, 21.0)

    def test_async_chunk_is_the_graphs_own_choice_unless_it_is_set(self) -> None:
        assert load(flags={}, environ={}).compute.async_chunk is None
        assert load(flags={"async_chunk": "off"}, environ={}).compute.async_chunk == "off"
        assert "compute.async_chunk is 'no': give one of on, off" in refusal(flags={"async_chunk": "no"})

    def test_the_family_of_models_is_a_setting(self) -> None:
        assert load(flags={}, environ={}).model == "voice"
        assert load(flags={"model": "three-stages"}, environ={}).model == "three-stages"

    def test_every_type_from_text(self) -> None:
        environ = {
            "DUPLEX_PORT": "0",
            "DUPLEX_INSECURE": "Yes",
            "DUPLEX_AUDIO_AHEAD_S": "0.25",
            "DUPLEX_ALLOWED_ORIGINS": "https://a.example, http://b.example:8080,",
            "DUPLEX_MODELS_DIR": "~/weights",
            "DUPLEX_LOG_LEVEL": "debug",
            "PATH": "not ours",
        }
        config = load(flags={}, environ=environ)
        assert config.http.port == 0
        assert config.http.insecure is True
        assert config.limits.audio_ahead_s == 0.25
        assert config.http.allowed_origins == ("https://a.example", "http://b.example:8080")
        assert config.models_path == Path("~/weights").expanduser()
        assert config.log_level == "debug"

    def test_every_type_from_a_file(self, tmp_path: Path) -> None:
        config = from_file(
            tmp_path,
            'models_dir = "weights"\ncache_dir = "/var/cache/duplex"\n'
            '[http]\nport = 1\ninsecure = true\nallowed_origins = ["*"]\n[limits]\naudio_ahead_s = 1\n',
        )
        assert config.models_dir == tmp_path / "weights"
        assert config.cache_dir == Path("/var/cache/duplex")
        assert config.http == HttpConfig(port=1, insecure=True, allowed_origins=("*",))
        assert config.limits == LimitsConfig(audio_ahead_s=1.0)
        assert type(config.limits.audio_ahead_s) is float

    def test_the_cache_follows_xdg(self) -> None:
        assert load(flags={}, environ={"XDG_CACHE_HOME": "/c"}).models_path == Path("/c/duplex/models")
        assert load(flags={}, environ={"XDG_CACHE_HOME": "relative"}).cache_dir == Path("~/.cache/duplex")
        assert load(flags={"cache_dir": "/d"}, environ={"XDG_CACHE_HOME": "/c"}).models_path == Path("/d/models")

    def test_flags_are_parsed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DUPLEX_MAX_SESSIONS", "2")
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        config = from_arguments(parser.parse_args(["--port", "81", "--no-insecure"]))
        assert (config.http.port, config.http.insecure, config.limits.max_sessions) == (81, False, 2)

    def test_web_files_are_found(self, tmp_path: Path) -> None:
        assert HttpConfig(web_dir=tmp_path).web_path == tmp_path
        assert HttpConfig().web_path.name in ("web", "_web")


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "value", "wanted"),
        [
            ("port", "65536", "a whole number from 0 to 65535"),
            ("port", "http", "a whole number from 0 to 65535"),
            ("port", "8000.0", "a whole number from 0 to 65535"),
            ("queue_length", "-1", "a whole number from 0 to 4096"),
            ("queue_wait_s", "0", "a number from 1 to 3600"),
            ("cores", "-2", "a number from 0.1 to 4096"),
            ("headroom", "1", "a number from 0 to 0.9"),
            ("state_budget_bytes", "-5", "a whole number from 1048576"),
            ("prefix_caches", "0", "a whole number from 1 to 256"),
            ("oversubscribe", "0.5", "a number from 1 to 1000"),
            ("max_sessions", "0", "a whole number from 1 to 4096"),
            ("audio_ahead_s", "nan", "a number from 0.05 to 10"),
            ("session_lifetime_s", "inf", "a number from 1 to 604800"),
            ("connector_budget_bytes", "5", "a whole number from 4194304 to 1099511627776"),
            ("insecure", "maybe", "true or false"),
            ("log_level", "loud", "one of debug, info, warning, error"),
            ("models_dir", "", "a path"),
        ],
    )
    def test_a_wrong_value_is_named_with_its_remedy(self, name: str, value: str, wanted: str) -> None:
        variable = f"DUPLEX_{name.upper()}"
        message = refusal(environ={variable: value})
        assert wanted in message
        assert name in message
        assert variable in message
        assert f"--{name.replace('_', '-')}" in message
        assert refusal(flags={name: value}).startswith(message.split(" is ")[0])

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            (
                "[limits]\nmax_session = 3",
                "limits.max_session in {file} is no setting: did you mean limits.max_sessions?",
            ),
            ("max_sessions = 3", "max_sessions in {file} is no setting: did you mean limits.max_sessions?"),
            (
                "[http]\nmax_sessions = 3",
                "http.max_sessions in {file} is no setting: did you mean limits.max_sessions?",
            ),
            ("[zzz]\n", "zzz in {file} is no setting: see `duplex serve --help`"),
            ("http = 3", "http in {file} is a value: make it a table, [http]"),
            ("[limits]\nmax_sessions = true", "limits.max_sessions is True (from {file}): give a whole number"),
            ("[limits]\nmax_sessions = 2.0", "limits.max_sessions is 2.0 (from {file}): give a whole number"),
            ("[http]\nallowed_origins = [1]", "http.allowed_origins is [1] (from {file}): give a list"),
            ("[http]\nhost = 1", "http.host is 1 (from {file}): give text"),
            ("[http", "the configuration file {file} is not TOML"),
        ],
    )
    def test_a_wrong_file_is_refused(self, tmp_path: Path, text: str, part: str) -> None:
        with pytest.raises(ConfigError) as caught:
            from_file(tmp_path, text)
        assert part.format(file=tmp_path / "duplex.toml") in str(caught.value)

    def test_an_absent_file_is_refused(self) -> None:
        assert refusal(flags={"config": "/no/such.toml"}).startswith(
            "the configuration file /no/such.toml cannot be read"
        )

    def test_an_unknown_variable_is_refused(self) -> None:
        message = refusal(environ={"DUPLEX_MAX_SESSION": "3"})
        assert message == "DUPLEX_MAX_SESSION is set, but there is no such setting: did you mean DUPLEX_MAX_SESSIONS?"

    def test_code_is_held_to_the_same_ranges(self) -> None:
        with pytest.raises(ConfigError, match=r"limits\.max_sessions is 0"):
            LimitsConfig(max_sessions=0)

    @pytest.mark.parametrize("origin", ["example.org", "https://example.org/path", "https://", "ftp://example.org"])
    def test_an_origin_that_could_never_match_is_refused(self, origin: str) -> None:
        assert repr(origin) in refusal(environ={"DUPLEX_ALLOWED_ORIGINS": origin})


class TestReach:
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
    def test_loopback_needs_no_key(self, host: str) -> None:
        assert load(flags={"host": host}, environ={}).http.api_key is None

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
    def test_beyond_loopback_needs_one(self, host: str) -> None:
        message = refusal(flags={"host": host})
        assert "--insecure" in message
        assert "DUPLEX_API_KEY" in message
        assert load(flags={"host": host, "insecure": True}, environ={}).http.host == host
        assert load(flags={"host": host}, environ={"DUPLEX_API_KEY": SECRET}).http.api_key == SECRET


class TestKey:
    def test_it_is_never_shown(self) -> None:
        config = load(flags={}, environ={"DUPLEX_API_KEY": SECRET})
        assert SECRET not in repr(config)

    def test_it_has_no_flag(self) -> None:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        assert "--api-key-file" in parser.format_help()
        assert "--api-key " not in parser.format_help()

    def test_a_file_may_hold_it(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(f"{SECRET}\n")
        assert from_file(tmp_path, '[http]\napi_key_file = "key"').http.api_key == SECRET

    @pytest.mark.parametrize("content", [b"", b"two words\n", b"\xff\xfe"])
    def test_a_file_without_a_usable_key_is_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "key").write_bytes(content)
        message = refusal(flags={"api_key_file": str(tmp_path / "key")})
        assert "two words" not in message

    def test_an_absent_key_file_is_refused(self) -> None:
        assert refusal(flags={"api_key_file": "/no/such"}).startswith("the API key file /no/such cannot be read")

    def test_two_keys_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(SECRET)
        message = refusal(flags={"api_key_file": str(tmp_path / "key")}, environ={"DUPLEX_API_KEY": "other"})
        assert "both set" in message

    def test_a_wrong_one_is_not_shown(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            from_file(tmp_path, "[http]\napi_key = 12345")
        assert "12345" not in str(caught.value)
        assert SECRET not in refusal(environ={"DUPLEX_API_KEY": f"{SECRET} {SECRET}"})
