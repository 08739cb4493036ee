"""The benchmark `stages`: what it costs that stages are processes."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from latency_bench import machine
from latency_bench.micro import handover, hop
from latency_bench.table import Report

SUMMARY = "stages in processes of their own: what lies between them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `stages`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--scale", type=_scale, default=1.0, help="how much of the usual repetitions (default: 1)")


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no scale: give a number above 0, at most 100")
    return scale


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and judge."""
    report = Report(
        benchmark="stages",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"repetitions": f"{arguments.scale:g} of the usual"},
    )
    report.rows += handover.rows(scale=arguments.scale)
    report.rows += hop.rows(max(10, round(hop.HOPS * arguments.scale)))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    return report
