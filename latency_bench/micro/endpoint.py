"""The benchmark `endpoint`: when the user's turn is taken to be over, by the real detector and the real models, on the
utterances' own clock. The same audio is followed in three ways, so that nothing but what is asked differs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from duplex.audio.pcm import Samples
from duplex.config import from_arguments
from duplex.connector.payload import Message
from duplex.models.store import ModelStore
from duplex.session.policy import DetectorPolicy
from duplex.session.settings import SemanticVad, SessionLimits
from latency_bench import machine
from latency_bench.clips import GROUPS
from latency_bench.clips.make import RATE_HZ
from latency_bench.micro.following import Hearing, Judge, follow
from latency_bench.micro.sentences import SENTENCES
from latency_bench.micro.utterances import committed, in_a_room, spoken
from latency_bench.micro.verdict import AFTER_HISTORY, FIRST, SENTENCES_GROUP, SOUND_ALONE, Trial, failures, rows
from latency_bench.table import Report

SUMMARY = "the end of the user's turn, without a server: turns cut short, and the silence before the end"

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
HISTORY = (
    Message(role="user", text="What is the capital of Italy?"),
    Message(role="assistant", text="The capital of Italy is Rome."),
    Message(role="user", text="Give me a tip for washing wool."),
    Message(role="assistant", text="Use cold water and"),
    Message(role="user", text="How do birds fly?"),
    Message(role="assistant", text="They flap"),
)
"""A conversation so far; of answers that were interrupted it has what was heard."""

SEEDS = 3
DELAY_MS = 80
"""For an answer to the sound, and for one to the words; the policy was chosen with so much of it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the flags of `endpoint`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--seeds", type=_takes, default=SEEDS, help="takes of each utterance (default: %(default)s)")


def _takes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of takes: give 1 or more")
    return int(text)


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and judge.

    Raises:
        ConfigError, ModelStoreError, StageError: the models are not there or cannot run; one sentence with the remedy.
    """
    # Whoever measures a server from outside does not want the models' libraries in the same process.
    from latency_bench.micro.models import Models

    config = from_arguments(argparse.Namespace())
    path = ModelStore(config.models_path, owned=config.models_dir is None).path
    report = Report(
        benchmark="endpoint",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={
            "instructions": INSTRUCTIONS,
            "takes": f"{arguments.seeds} of each utterance, each with noise and a beginning of its own",
            "answers": f"{DELAY_MS} ms after they are asked for",
        },
        failed="utterances that were cut in spite of their words, though nobody put a pause in, or that did not end",
    )
    instructions = (Message(role="system", text=INSTRUCTIONS),)
    with closing(Models(path=path, compute=config.compute, judges=2)) as models:
        ways = {
            SOUND_ALONE: None,
            FIRST: models.judge(instructions, first=True),
            AFTER_HISTORY: models.judge((*instructions, *HISTORY), first=False),
        }
        trials = list(_trials(models.hear, ways, seeds=arguments.seeds))
    report.rows = rows(trials)
    report.failures = failures(trials)
    report.samples = {"trials": [asdict(trial) for trial in trials]}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    return report


def _trials(hear: Callable[[Samples], Hearing], ways: Mapping[str, Judge | None], *, seeds: int) -> Iterator[Trial]:
    policy = DetectorPolicy.of(SemanticVad(), max_turn_s=SessionLimits().max_turn_s)
    clips = [clip for group in GROUPS for clip in committed(group)]
    for utterance in (*spoken(SENTENCES_GROUP, SENTENCES), *clips):
        for seed in range(seeds):
            take = in_a_room(utterance, seed)
            hearing = hear(take.samples)
            for way, judge in ways.items():
                followed = follow(hearing, policy=policy, hz=RATE_HZ, delay_ms=DELAY_MS, judge=judge)
                silence = None if followed.ended is None else followed.ended - take.audible_end
                yield Trial(
                    group=utterance.group,
                    utterance=utterance.name,
                    seed=seed,
                    way=way,
                    silence_ms=None if silence is None else 1000 * silence / RATE_HZ,
                    pauses=followed.pauses,
                )
