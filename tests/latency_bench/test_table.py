"""Rows against bars."""

from __future__ import annotations

import json

import pytest

from latency_bench.table import Report, Row


def report(*rows: Row) -> Report:
    return Report(benchmark="b", date="d", machine={"cpu": "x"}, settings={"detection": "y"}, rows=list(rows))


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (Row(figure="f", value=700.0, unit="ms", bar=700), True),
        (Row(figure="f", value=700.1, unit="ms", bar=700), False),
        (Row(figure="f", value=0, unit="bytes", bar=0), True),
        (Row(figure="f", value=None, unit="ms", bar=700), False),
        (Row(figure="f", value=None, unit="ms", bar=700, skipped=True), None),
        (Row(figure="f", value=1.0, unit="ms"), None),
    ],
)
def test_a_row_holds_only_with_a_value_within_its_bar(row: Row, holds: bool | None) -> None:
    assert row.holds is holds


def test_a_report_holds_only_if_every_bar_does_and_there_is_one() -> None:
    good = Row(figure="good", value=1, unit="ms", bar=2)
    bad = Row(figure="bad", value=3, unit="ms", bar=2)
    assert report(good).holds
    assert not report(good, bad).holds
    assert not report().holds
    assert not report(Row(figure="f", value=1, unit="ms")).holds


def test_text_shows_every_row_and_each_failure() -> None:
    told = report(Row(figure="voice", value=512.3, unit="ms", bar=700, note="n"), Row(figure="x", value=None, unit="%"))
    told.failures.append("clip 7: no answer")
    lines = told.as_text().split("\n")
    assert next(line for line in lines if line.startswith("voice")).split() == [
        "voice",
        "512",
        "ms",
        "<=",
        "700",
        "yes",
        "n",
    ]
    assert next(line for line in lines if line.startswith("x")).split() == ["x", "-", "%"]
    assert "1 trials without a figure:" in lines
    assert "  clip 7: no answer" in lines
    assert lines[-1] == "all bars hold"


def test_json_round_trips_with_verdicts() -> None:
    told = json.loads(json.dumps(report(Row(figure="f", value=3, unit="ms", bar=2)).as_json()))
    assert told["holds"] is False
    assert told["rows"][0]["holds"] is False
    assert told["machine"] == {"cpu": "x"}
