"""The picture of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from duplex.client.turn import Turn
from duplex.client.waterfall import draw, rows

SERVER: dict[str, Any] = {
    "response_id": "r1",
    "t0": "user's speech end as the server saw it",
    "marks": [{"name": "turn_confirmed", "ms": 200}, {"name": "never", "ms": None}],
    "stages": [
        {"name": "hear", "submitted_ms": -900, "first_input_ms": -800, "first_output_ms": 150, "finished_ms": 210},
        {"name": "think", "submitted_ms": -900, "first_input_ms": 160, "first_output_ms": 190, "finished_ms": None},
        {"name": "talk", "submitted_ms": 0, "first_input_ms": None, "first_output_ms": None, "finished_ms": None},
    ],
}


def turn(**rest: Any) -> Turn:
    return Turn(speech_end_s=10.0, stopped_s=10.25, first_packet_s=10.3, first_audible_s=10.4, ear_s=10.45, **rest)


def test_the_servers_figures_are_moved_to_this_sides_zero() -> None:
    found = {row.name: row for row in rows(turn(server=SERVER, server_zero_s=9.96))}
    assert found["turn_confirmed"].end_ms == pytest.approx(160)
    assert (found["hear"].start_ms, found["hear"].first_ms, found["hear"].end_ms) == pytest.approx((-840, 110, 170))
    assert found["think"].end_ms == found["think"].first_ms == pytest.approx(150)
    assert "never" not in found
    assert "talk" not in found
    assert found["> first sound"].end_ms == pytest.approx(400)


def test_an_event_that_both_sides_saw_sets_the_shift_and_the_quickest_message_wins() -> None:
    server = {
        "marks": [{"name": "turn_end", "ms": 200}, {"name": "first_audio", "ms": 260}, {"name": "done", "ms": 900}],
        "stages": [{"name": "think", "first_input_ms": 210, "first_output_ms": 230, "finished_ms": 500}],
    }
    found = {row.name: row for row in rows(turn(server=server, server_zero_s=9.9))}
    # The turn's end arrived at 250, its first audio at 300 ms: 50 and 40 ms after their marks.
    assert found["turn_end"].end_ms == pytest.approx(240)
    assert found["think"].first_ms == pytest.approx(270)


def test_lines_stand_in_the_order_of_time_and_bars_where_their_figures_say() -> None:
    lines = draw(turn(server=SERVER), title="turn 1").split("\n")
    assert lines[0] == "turn 1: 400 ms voice to voice, 450 ms to the ear"
    figures = [int(line.rsplit("|", 1)[1].split()[0]) for line in lines[2:]]
    assert next(line for line in lines if line.startswith("  hear")).endswith(" 150 .. 210 ms")
    assert figures == sorted(figures)
    bars = {line.split("|")[0].strip(): line.split("|")[1] for line in lines[2:]}
    assert len({len(bar) for bar in bars.values()}) == 1
    zero = bars["> heard"].index(":")
    assert bars["hear"].startswith("=")  # began before the axis does: drawn at its edge
    assert bars["> turn ended"].index("#") > zero
    assert bars["think"].index("=") < bars["think"].index("#")
    assert bars["> turn ended"].index("#") < bars["> first sound"].index("#")


@pytest.mark.parametrize("server", [{}, {"stages": None}, {"stages": [1, {"name": "x"}], "marks": "none"}])
def test_a_server_that_says_less_or_nonsense_is_no_failure(server: dict[str, Any]) -> None:
    assert [row.name for row in rows(turn(server=server))] == [
        "> turn ended",
        "> first packet",
        "> first sound",
        "> heard",
    ]


def test_a_turn_without_an_answer_can_be_drawn() -> None:
    assert draw(Turn(), title="turn 2") == "turn 2: unknown voice to voice, unknown to the ear"
    assert "> turn ended" in draw(Turn(speech_end_s=1.0, stopped_s=1.2), title="turn 2")
