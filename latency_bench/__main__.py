"""``python -m latency_bench list | talk | sessions | soak | endpoint | stages``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duplex.errors import DuplexError
from latency_bench.micro import endpoint, stages
from latency_bench.table import Report
from latency_bench.wire import sessions, soak, talk
from latency_bench.wire.server import ServerFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark: `run` measures and judges."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Report]


BENCHMARKS = {
    "talk": Benchmark(summary=talk.SUMMARY, add_arguments=talk.add_arguments, run=talk.run),
    "sessions": Benchmark(summary=sessions.SUMMARY, add_arguments=sessions.add_arguments, run=sessions.run),
    "soak": Benchmark(summary=soak.SUMMARY, add_arguments=soak.add_arguments, run=soak.run),
    "endpoint": Benchmark(summary=endpoint.SUMMARY, add_arguments=endpoint.add_arguments, run=endpoint.run),
    "stages": Benchmark(summary=stages.SUMMARY, add_arguments=stages.add_arguments, run=stages.run),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one benchmark; 0 where all its bars hold, 1 where not or where it cannot run, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m latency_bench", description="Measures a server from outside, and parts of it alone."
    )
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK", dest="name")
    commands.add_parser("list", help="show what there is")
    for name, benchmark in BENCHMARKS.items():
        benchmark.add_arguments(commands.add_parser(name, help=benchmark.summary))
    arguments = parser.parse_args(argv)
    if arguments.name == "list":
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:10} {benchmark.summary}")
        return 0
    try:
        report = BENCHMARKS[arguments.name].run(arguments)
    except (DuplexError, ServerFailed) as error:
        print(f"latency_bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(report.as_text())
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
