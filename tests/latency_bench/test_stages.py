"""The benchmark `stages`: real processes, a few repetitions, and the shape of the table."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from latency_bench.__main__ import main
from latency_bench.micro import handover


def test_a_hand_over_is_measured_beside_a_copy() -> None:
    cores = os.sched_getaffinity(0)
    rows = {row.figure: row for row in handover.rows(scale=0.01)}
    assert os.sched_getaffinity(0) == cores
    assert all(row.value is not None and row.value > 0 for row in rows.values())
    assert {row.figure: row.bar for row in rows.values() if row.bar is not None} == {
        "hand-over of 4 KB": 40,
        "4 MB against a plain copy": 1.5,
    }
    assert rows["a message alone"].value < rows["hand-over of 4 KB"].value  # type: ignore[operator]


def test_the_benchmark_judges_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages", "--scale=0.01", f"--json={tmp_path / 'stages.json'}"]) in (0, 1)
    assert "hand-over of 4 KB" in capsys.readouterr().out
    assert json.loads((tmp_path / "stages.json").read_text())["benchmark"] == "stages"


@pytest.mark.parametrize("scale", ["0", "-1", "101", "much"])
def test_a_scale_that_is_none(scale: str) -> None:
    with pytest.raises(SystemExit):
        main(["stages", f"--scale={scale}"])
