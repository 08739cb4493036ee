"""The mailbox alone: who goes first, and what happens when it is full."""

from __future__ import annotations

import asyncio

import pytest

from duplex.session.events import ClearAudio, Close, CommitAudio, Completed
from duplex.session.fence import MAIN, Fence
from duplex.session.mailbox import Mailbox

pytestmark = pytest.mark.anyio

REPORT = Completed(fence=Fence("sess_t", 0, MAIN, 1))


async def test_the_last_word_goes_first_then_reports_then_the_client() -> None:
    box = Mailbox(client_events=2, reports=2)
    assert await box.send(ClearAudio(), lambda: True)
    assert box.report(REPORT)
    box.force(Close(reason="shutdown"))
    assert [box.take(clients=True) for _ in range(4)] == [Close(reason="shutdown"), REPORT, ClearAudio(), None]


async def test_of_many_last_words_the_first_stands() -> None:
    """Each report that finds no room asks for the end anew: that must not grow without bound either."""
    box = Mailbox(client_events=1, reports=1)
    assert box.report(REPORT)
    for reason in ("overloaded", "slow_reader", "shutdown"):
        assert not box.report(REPORT)
        box.force(Close(reason=reason))
    assert len(box) == 2
    assert box.take(clients=True) == Close(reason="overloaded")
    assert box.take(clients=True) == REPORT
    assert box.take(clients=True) is None


async def test_a_last_word_wakes_whoever_waits() -> None:
    box = Mailbox(client_events=1, reports=1)
    async with asyncio.timeout(1), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(box.wait(None, clients=False))
        await asyncio.sleep(0)
        box.force(Close(reason="shutdown"))
        await waiting
    await box.wait(None, clients=False)


async def test_whoever_waits_for_room_is_let_go_at_the_end() -> None:
    box = Mailbox(client_events=1, reports=1)
    assert await box.send(ClearAudio(), lambda: True)
    async with asyncio.timeout(1), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(box.send(CommitAudio(), lambda: True)) for _ in range(3)]
        await asyncio.sleep(0)
        box.close()
        assert not any([await one for one in waiting])


async def test_whoever_has_waited_for_room_and_is_not_wanted_any_more_takes_none() -> None:
    box = Mailbox(client_events=1, reports=1)
    wanted = True
    assert await box.send(ClearAudio(), lambda: wanted)
    async with asyncio.timeout(1), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(box.send(CommitAudio(), lambda: wanted))
        await asyncio.sleep(0)
        wanted = False
        assert box.take(clients=True) == ClearAudio()
        assert not await waiting
        wanted = True
        assert await box.send(CommitAudio(), lambda: wanted)
