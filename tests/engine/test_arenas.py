"""Who is told of which arena."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from duplex.engine.arenas import MOST, Arenas
from duplex.engine.wire import AddPeer, DropPeer, ToProcess
from duplex.errors import StageError
from tests.engine.hosted_engines import FileConnector


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[ToProcess, int]] = []

    def __call__(self, message: ToProcess, fds: Sequence[int]) -> None:
        self.heard.append((message, len(fds)))


def arena() -> int:
    return os.memfd_create("arena")


def test_each_hears_of_all_others_and_of_their_end() -> None:
    connector = FileConnector(0, 100)
    arenas, ears = Arenas(connector), [Ear(), Ear(), Ear()]
    numbers = [arenas.number("x") for _ in ears]
    assert numbers == [1, 2, 3]
    for number, ear in zip(numbers, ears, strict=True):
        arenas.join(number, arena(), 10 * number, ear)
    assert ears[0].heard == [(AddPeer(number=2, arena_bytes=20), 1), (AddPeer(number=3, arena_bytes=30), 1)]
    assert ears[2].heard == [(AddPeer(number=1, arena_bytes=10), 1), (AddPeer(number=2, arena_bytes=20), 1)]
    assert sorted(connector.peers) == [0, 1, 2, 3]
    arenas.give_back(2)
    assert ears[0].heard[-1] == ears[2].heard[-1] == (DropPeer(number=2), 0)
    assert ears[1].heard[-1] != (DropPeer(number=2), 0)
    assert sorted(connector.peers) == [0, 1, 3]
    for number in (1, 3):
        arenas.give_back(number)
    connector.close()


def test_a_number_comes_back_last_and_there_are_so_many() -> None:
    connector = FileConnector(5, 100)
    arenas = Arenas(connector)
    first = arenas.number("x")
    arenas.give_back(first)
    rest = [arenas.number("x") for _ in range(MOST - 1)]
    assert rest[-1] == first
    assert 5 not in rest
    assert len(set(rest)) == MOST - 1
    with pytest.raises(StageError, match="use fewer replicas"):
        arenas.number("x")
    connector.close()
