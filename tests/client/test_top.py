"""`duplex top`: what it draws of a look, and what it says where there is nothing to look at."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from duplex.client import top
from duplex.client.panel import Bound, Look, Session, Sessions, metrics_of, panel
from duplex.errors import TalkError

PAGE = """\
# HELP duplex_ready 1 when a warm turn has run.
# TYPE duplex_ready gauge
duplex_ready 1.0
# TYPE duplex_connector_bytes gauge
duplex_connector_bytes 1536.0
# TYPE duplex_stage_requests gauge
duplex_stage_requests{stage="think"} 2.0
duplex_stage_requests{stage="talk"} 0.0
# TYPE duplex_events counter
duplex_events_total{kind="sessions_opened"} 12.0
duplex_events_total{kind="aborted_chunks"} 0.0
"""
SESSIONS = Sessions(
    data=[
        Session(id="sess_a", state="active", age_s=75.0, used_s={"think": 1.5}, used_lately={"think": 0.25, "hear": 0}),
        Session(id="sess_b", state="queued", age_s=3.0, position=1, eta_s=20.4),
        Session(id="sess_c", state="detached", age_s=7300.0, used_lately={"think": 0.5}, nbytes={"host": 2_500_000}),
    ],
    budget=[
        Bound(kind="sessions", name="sessions", taken=2, most=4),
        Bound(kind="nbytes", name="host", taken=5e6, most=512e6),
        Bound(kind="compute", name="think", taken=0.4, most=0.8),
    ],
)


def look(at_s: float = 10.0, opened: float = 12.0, sessions: Sessions = SESSIONS) -> Look:
    metrics = metrics_of(PAGE) | {"duplex_events_total sessions_opened": opened}
    return Look(at_s=at_s, sessions=sessions, metrics=metrics)


def drawn(now: Look, before: Look | None = None, *, columns: int = 200, rows: int = 50) -> list[str]:
    return panel(now, before, name="here:8000", columns=columns, rows=rows)


def test_it_shows_what_there_is_the_busiest_first() -> None:
    lines = drawn(look())
    assert lines[0] == "duplex here:8000  ready"
    assert "sessions  ▕██████████          ▏ 2 of 4" in lines
    assert "host      ▕▎                   ▏ 5 MB of 512 MB" in lines
    assert "think     ▕██████████          ▏ 0.4 of 0.8 cores" in lines
    assert "requests in stages  think 2  talk 0" in lines
    assert "between them        1.54 KB" in lines
    assert "events so far       sessions_opened 12" in lines
    of_sessions = lines[-3:]
    assert [line.split()[0] for line in of_sessions] == ["sess_c", "sess_a", "sess_b"]
    assert of_sessions[0].split() == ["sess_c", "detached", "2h01m", "0.50", "0.0s", "2.5", "MB", "think", "0.50"]
    assert of_sessions[1].split() == ["sess_a", "active", "1m15s", "0.25", "1.5s", "0", "B", "think", "0.25"]
    assert of_sessions[2].endswith("place 1 in the queue, 20 s")


def test_rates_are_between_two_looks() -> None:
    assert "events so far       sessions_opened 12 (+3.0/s)" in drawn(look(10.0, 12.0), look(8.0, 6.0))
    assert "events so far       sessions_opened 12" in drawn(look(10.0, 12.0), look(10.0, 6.0))
    restarted = drawn(look(10.0, 1.0), look(8.0, 6.0))
    assert "events so far       sessions_opened 1" in restarted, "a server that has begun again has no negative rate"


@pytest.mark.parametrize("rows", [1, 5, 13, 14, 15, 40])
def test_it_fits_the_terminal(rows: int) -> None:
    many = msgspec.structs.replace(SESSIONS, data=SESSIONS.data * 20, refusal="All places are taken. " * 20)
    lines = drawn(look(sessions=many), rows=rows, columns=60)
    assert len(lines) <= rows
    assert max(map(len, lines)) <= 60
    if rows == 40:
        assert lines[-1] == f"and {60 - (40 - 14)} more"


@contextmanager
def answering(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != "Bearer key":
                self.send_response(401)
                self.end_headers()
                return
            status, body = answers.get(self.path, (200, b""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_it_asks_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({"/v1/sessions": (200, msgspec.json.encode(SESSIONS)), "/metrics": (200, PAGE.encode())}) as url:
        assert top.main(argparse.Namespace(url=url, api_key="key", every=1.0, once=True)) == 0
        assert "sess_a" in capsys.readouterr().out
        with pytest.raises(TalkError, match="wants another key"):
            top.look(url, None)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"/v1/sessions": (404, b"")}, "answers 404"),
        ({"/v1/sessions": (200, b"hello")}, "something else"),
        ({"/v1/sessions": (200, b'{"data": 1}')}, "something else"),
        ({"/v1/sessions": (200, b'{"data": [], "budget": []}'), "/metrics": (200, b"\xff")}, "something else"),
        ({"/v1/sessions": (200, b'{"data": [], "budget": []}'), "/metrics": (200, b"a{ b")}, "something else"),
    ],
)
def test_another_server_is_told_from_ours(answers: dict[str, tuple[int, bytes]], says: str) -> None:
    with answering(answers) as url, pytest.raises(TalkError, match=says):
        top.look(url, "key")


def test_where_nothing_is_it_says_so() -> None:
    with pytest.raises(TalkError, match="is the server running"):
        top.look("http://127.0.0.1:9", None)
    with pytest.raises(TalkError, match="is no address"):
        top.main(argparse.Namespace(url="localhost", api_key=None, every=1.0, once=True))


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "1e9"])
def test_a_bad_interval_is_refused(text: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    top.add_arguments(parser)
    with pytest.raises(argparse.ArgumentError, match="no time between looks"):
        parser.parse_args(["--every", text])
