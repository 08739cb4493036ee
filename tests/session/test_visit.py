"""An arrival that has gone before its session began."""

from __future__ import annotations

import pytest

from duplex.session.visit import Visit

pytestmark = pytest.mark.anyio


async def test_who_has_gone_is_not_begun_for() -> None:
    visit = Visit(session_id="sess_1")
    visit.admit()
    assert not visit.detach(), "there is nothing that could outlive the connection"
    assert not await visit.admitted()
    assert await visit.next() is None
