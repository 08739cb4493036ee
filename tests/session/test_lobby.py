"""The runner of admission where the random tests seldom come: several things due at one moment."""

from __future__ import annotations

import asyncio
from collections import Counter

from duplex.session.admission import FIRST_RETRY_S, REFRESH_S, Admission
from duplex.session.budget import Budget
from duplex.session.lobby import Lobby, Usage
from duplex.session.notices import Queued
from duplex.session.visit import Visit
from tests.session.virtual import VirtualLoop


def test_a_retry_and_a_refresh_at_one_moment() -> None:
    """The place becomes free in the very effects that also tell everyone where they stand."""
    loop = VirtualLoop()
    failures = ["once"]

    def clean(session_id: str) -> None:
        if failures:
            raise OSError(failures.pop())

    async def story() -> None:
        admission = Admission(budget=Budget(sessions=1), queue_length=3)
        lobby = Lobby(
            admission=admission,
            measure=lambda session_id: Usage(),
            clean=clean,
            counters=Counter(),
            clock=loop.time,
        )
        first, second, third = (Visit(session_id=session_id) for session_id in "abc")
        for visit in (first, second, third):
            lobby.enter(visit)
        assert [await second.receive(), await third.receive()] == [
            Queued(position=1, eta_s=None),
            Queued(position=2, eta_s=None),
        ]
        loop.call_at(1000 + REFRESH_S - FIRST_RETRY_S, lobby.leave, "a")
        assert await second.admitted()
        assert loop.time() == 1000 + REFRESH_S
        assert second._position is None, "it is told a position after it was let in"
        told = await third.receive()
        assert isinstance(told, Queued)
        assert told.position == 1
        lobby.leave("b")
        lobby.leave("c")
        assert len(admission) == admission.waiting == 0

    task = loop.create_task(story())
    loop.advance(60)
    assert task.done()
    task.result()
    assert not asyncio.all_tasks(loop)
    loop.close()
