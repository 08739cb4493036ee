"""A server's budget from its configuration and graph, and what `GET /v1/sessions` says of it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from duplex import capacity
from duplex.census import census
from duplex.config import ComputeConfig, LimitsConfig, ServerConfig
from duplex.engine.base import Lane
from duplex.models.voice.graph import VOICE
from duplex.session.admission import WINDOW_S, Admission
from duplex.session.lobby import Usage
from duplex.session.places import Arrive, CleanFailed, Leave, Used
from duplex.session.tariff import Tariff

LANES = {"think": Lane(most=1.0, weights={"think": 1.0})}
WIDTHS = dict.fromkeys(VOICE.stages, 1.0)


def admission(*, sessions: int = 4, queue_length: int = 2, **compute: float) -> Admission:
    config = ServerConfig(
        limits=LimitsConfig(max_sessions=sessions, queue_length=queue_length),
        compute=ComputeConfig(**{"cores": 64.0} | compute),  # type: ignore[arg-type]
    )
    return Admission(
        budget=capacity.budget(config, lanes=LANES, widths=WIDTHS),
        tariff=Tariff(
            declared=capacity.declared(VOICE, ring_bytes=320_000), oversubscribe=config.compute.oversubscribe
        ),
        queue_length=queue_length,
    )


def fill(to: Admission) -> int:
    number = 0
    while to.refusal(0.0) is None:
        to.receive(Arrive(session_id=str(number)), 0.0)
        number += 1
    return number


def test_every_stage_of_the_default_graph_declares_its_load() -> None:
    price = capacity.declared(VOICE, ring_bytes=320_000)
    assert price.compute.keys() == VOICE.stages.keys() | {capacity.CONTROL}
    assert min(price.compute.values()) > 0
    assert price.nbytes["host"] > 320_000 + 20 * 2 * 16_000


def test_two_cores_hold_four_sessions_that_talk() -> None:
    assert fill(admission(sessions=256, cores=2.0, queue_length=0)) == 4


def test_two_cores_hold_two_hundred_that_are_attached_where_the_operator_says_so() -> None:
    assert fill(admission(sessions=256, cores=2.0, queue_length=0, oversubscribe=64.0)) == 256


@pytest.mark.parametrize(
    ("compute", "held"),
    [({}, 50), ({"cores": 1.0}, 2), ({"cores": 0.1}, 1), ({"state_budget_bytes": 5 << 20}, 3), ({"headroom": 0.9}, 1)],
)
def test_each_setting_bounds(compute: dict[str, float], held: int) -> None:
    """Without any other bound the language model's own loop holds four."""
    assert fill(admission(sessions=50, queue_length=0, **compute)) == min(held, 4)


def test_a_budget_in_which_nobody_has_room_is_refused() -> None:
    price = capacity.declared(VOICE, ring_bytes=1 << 21)
    least = price.nbytes["host"]
    said = []
    for nbytes in (least, least - 1):
        config = ServerConfig(compute=ComputeConfig(state_budget_bytes=nbytes))
        said.append(capacity.refusal(capacity.budget(config, lanes=LANES, widths=WIDTHS), price))
    assert said[0] is None
    assert said[1] is not None
    assert f"one session takes {least}: give as much at least" in said[1]


def test_the_cores_are_those_of_the_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bound = len(os.sched_getaffinity(0))
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(capacity, "_CPU_MAX", quota)
    assert capacity.cores() == bound
    for text, wanted in (("max 100000", bound), ("50000 100000", 0.5), ("", bound)):
        quota.write_text(text)
        assert capacity.cores() == wanted


def test_the_census_shows_everyone_and_every_bound() -> None:
    here = admission(sessions=2)
    for name in "abc":
        here.receive(Arrive(session_id=name), 0.0)
    here.receive(Used(session_id="a", compute={"think": 1.0}, nbytes={"host": 400_000}), WINDOW_S)
    here.receive(Leave(session_id="b"), WINDOW_S)
    here.receive(CleanFailed(session_id="b"), WINDOW_S)

    def measure(session_id: str) -> Usage:
        assert session_id != "c", "who waits has used nothing"
        return Usage(compute={"think": 1.23456}, nbytes={"host": 7})

    counted = census(here, measure, 12.0)
    shown = msgspec.json.decode(msgspec.json.encode(counted))
    assert shown == msgspec.to_builtins(asdict(counted))
    first, second, third = shown["data"]
    assert (first["id"], first["state"], first["age_s"], first["position"]) == ("a", "active", 12.0, None)
    assert (first["used_s"], first["nbytes"]) == ({"think": 1.2346}, {"host": 7})
    assert first["used_lately"] == {"think": 0.1}
    assert first["price"]["compute"]["think"] == 0.2
    assert (second["state"], second["release_failures"]) == ("releasing", 1)
    assert (third["state"], third["position"], third["price"]) == ("queued", 1, None)
    bounds = {(entry["kind"], entry["name"]): (entry["taken"], entry["most"]) for entry in shown["budget"]}
    assert bounds["sessions", "sessions"] == (2, 2)
    assert bounds["queue", "queue"] == (1, 2)
    assert bounds["compute", "think"] == (0.4, 0.8)
    assert bounds["nbytes", "host"][1] == 512 << 20
    assert shown["windows"] == {"think": 1}
    assert shown["refusal"] is None
    lost = census(here, measure, 12.0, detached={"a"}).data
    assert [entry.state for entry in lost] == ["detached", "releasing", "queued"]
