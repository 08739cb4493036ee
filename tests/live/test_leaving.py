"""Clients that are gone from one moment to the next, in every state: the server lives, and nothing of them is left."""

from __future__ import annotations

import asyncio

import pytest
from websockets.exceptions import InvalidStatus

from duplex.audio.pcm import Samples
from tests.live.conftest import next_turn
from tests.live.leaving import STATES, come_and_go, vanish
from tests.live.process import Process

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.live]


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "breaks"])
@pytest.mark.parametrize("state", STATES)
async def test_a_client_is_gone(server: Process, spoken: dict[str, Samples], state: str, reset: bool) -> None:
    before = server.holdings()
    await vanish(server.url, STATES[state], spoken["book"], reset=reset)
    await server.settled(before)
    await next_turn(server.url)


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "breaks"])
async def test_clients_come_and_go(server: Process, reset: bool) -> None:
    """Many, several at a time, more than there are places for."""
    before = server.holdings()
    admitted = 0
    for _ in range(10):
        ends = await asyncio.gather(*(come_and_go(server.url, reset=reset) for _ in range(6)), return_exceptions=True)
        for end in ends:
            assert end is None or (isinstance(end, InvalidStatus) and end.response.status_code == 503), end
        admitted += ends.count(None)
    assert admitted >= 4
    await server.settled(before)
    await next_turn(server.url)


async def test_all_are_gone_at_once(server: Process, spoken: dict[str, Samples]) -> None:
    before = server.holdings()
    states = ("speaking", "committed", "listening", "interrupting")
    async with asyncio.TaskGroup() as tasks:
        for state in states:
            tasks.create_task(vanish(server.url, STATES[state], spoken["book"], reset=True))
    await server.settled(before)
    await next_turn(server.url)
