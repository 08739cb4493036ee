"""The picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex.client.turn import Turn
from duplex.errors import TalkError
from latency_bench.plot import plot
from latency_bench.wire.barge_in import Interruption
from latency_bench.wire.turns import Spoken

pytest.importorskip("matplotlib", reason="the picture is optional: `make env` installs what it needs")

SERVER = {
    "marks": [{"name": "turn_end", "ms": 200}, {"name": "done", "ms": 9000}],
    "stages": [
        {"name": "think", "submitted_ms": -900, "first_input_ms": 160, "first_output_ms": 190, "finished_ms": 250}
    ],
}


def test_a_picture_is_written(tmp_path: Path) -> None:
    turns = [Spoken(clip="a", text="", turn=Turn(speech_end_s=1.0, first_audible_s=1.5, server=SERVER))]
    plot(tmp_path / "a.png", turns=turns, interruptions=[Interruption(stop_ms=80.0)], title="t")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_in_which_all_failed_can_be_drawn(tmp_path: Path) -> None:
    failed = [Spoken(clip="a", text="", failure="lost")]
    plot(tmp_path / "a.png", turns=failed, interruptions=[Interruption(failure="lost")], title="t")
    assert (tmp_path / "a.png").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TalkError, match="cannot write"):
        plot(tmp_path / "no" / "a.png", turns=[], interruptions=[], title="t")
