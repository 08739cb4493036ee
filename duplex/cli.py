"""The command ``duplex``: serve, talk, top, models.

Each command imports what it runs only when it runs, so that `duplex models` works where a model's library does not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from duplex import __version__, config
from duplex.errors import DuplexError

_Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed (one sentence on stderr), 2 wrong usage, 130 Ctrl-C.

    Args:
        argv: the words after ``duplex``; None takes this process's own.
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = _parser(words).parse_args(words)
        run: _Command = arguments.run
        return run(arguments)
    except DuplexError as error:
        print(f"duplex: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="duplex", description="Real-time, full-duplex sessions with models.")
    parser.add_argument("--version", action="version", version=f"duplex {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="run the server", description="Run the server until Ctrl-C.")
    config.add_arguments(serve)
    serve.set_defaults(run=_serve)

    talk = commands.add_parser(
        "talk",
        help="speak a WAV file to a server and hear its answer",
        description="Play a WAV file to a server as a microphone would, and hear its answer.",
    )
    talk.set_defaults(run=_talk)
    if "talk" in words[:1]:
        from duplex.client.talk import add_arguments

        add_arguments(talk)

    top = commands.add_parser(
        "top",
        help="watch a server's sessions, budgets and stages",
        description="Show who is on a server, what they take, and what is left, until Ctrl-C.",
    )
    top.set_defaults(run=_top)
    if "top" in words[:1]:
        from duplex.client.top import add_arguments as add_top_arguments

        add_top_arguments(top)

    models = commands.add_parser("models", help="list, fetch or verify model files")
    actions = models.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text in (
        ("list", "show each model file, and whether it is here"),
        ("fetch", "bring the files that are absent, and replace damaged ones"),
        ("verify", "read every file and compare its hash"),
    ):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config.add_arguments(action, only=("models_dir", "cache_dir"))
        action.set_defaults(run=_models, action=name)
        if name == "fetch":
            action.add_argument("keys", nargs="*", metavar="KEY", help="only these files [all that the server runs]")
            action.add_argument("--test", action="store_true", help="also the files that only the tests read")
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    settings = config.from_arguments(arguments)
    from duplex.server import serve

    return serve(settings)


def _talk(arguments: argparse.Namespace) -> int:
    from duplex.client.talk import main as talk

    return talk(arguments)


def _top(arguments: argparse.Namespace) -> int:
    from duplex.client.top import main as top

    return top(arguments)


def _models(arguments: argparse.Namespace) -> int:
    from duplex.models import command
    from duplex.models.store import ModelStore

    settings = config.from_arguments(arguments)
    store = ModelStore(settings.models_path, owned=settings.models_dir is None)
    try:
        match arguments.action:
            case "list":
                return command.show(store)
            case "fetch":
                return command.fetch(store, keys=arguments.keys, test=arguments.test)
            case _:
                return command.verify(store)
    except BrokenPipeError:
        # Whoever read the output has left. Python would complain about the rest of it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
