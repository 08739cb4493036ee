"""``duplex top``: a server's sessions, budgets and stages, live in a terminal."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from http.client import HTTPException
from urllib.parse import urlsplit

import msgspec

from duplex.client.http import get
from duplex.client.panel import Look, Sessions, metrics_of, panel
from duplex.errors import TalkError

_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_TIMEOUT_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `duplex top`."""
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    parser.add_argument("--api-key", help="the server's key")
    parser.add_argument("--every", type=_seconds, default=1.0, metavar="SECONDS", help="between looks (default: 1)")
    parser.add_argument("--once", action="store_true", help="look once, print that, and end")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no time between looks: give 0.1 to 3600 seconds")
    return seconds


def main(arguments: argparse.Namespace) -> int:
    """Draw until Ctrl-C. Raises TalkError where the server does not answer, or is another one."""
    name = urlsplit(arguments.url).netloc
    if not name:
        raise TalkError(f"{arguments.url!r} is no address: give one such as http://127.0.0.1:8000")
    before = look(arguments.url, arguments.api_key)
    if arguments.once or not sys.stdout.isatty():
        print("\n".join(panel(before, None, name=name, columns=400, rows=10_000)))
        return 0
    sys.stdout.write(_OTHER_SCREEN)
    try:
        now = before
        while True:
            size = shutil.get_terminal_size()
            lines = panel(now, before, name=name, columns=size.columns, rows=size.lines - 1)
            sys.stdout.write(_HOME_AND_CLEAR + "\n".join(lines))
            sys.stdout.flush()
            time.sleep(arguments.every)
            before, now = now, look(arguments.url, arguments.api_key)
    finally:
        sys.stdout.write(_FIRST_SCREEN)
        sys.stdout.flush()


def look(url: str, api_key: str | None) -> Look:
    """Ask once. Raises TalkError."""
    try:
        status, body = get(url, "/v1/sessions", api_key, _TIMEOUT_S)
        if status == 200:
            status, page = get(url, "/metrics", api_key, _TIMEOUT_S)
        if status in (401, 403):
            raise TalkError(f"the server at {url} wants another key: give it with --api-key")
        if status != 200:
            raise TalkError(f"the server at {url} answers {status} and shows nothing: is it duplex?")
        sessions = msgspec.json.decode(body, type=Sessions)
        return Look(at_s=time.monotonic(), sessions=sessions, metrics=metrics_of(page.decode()))
    except (OSError, HTTPException) as error:
        raise TalkError(f"nothing answers at {url} ({error}): is the server running there?") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise TalkError(f"the server at {url} answers something else than duplex does: {error}") from error
