"""Engines in real processes: what a request sees, and what becomes of it when its process does."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from duplex.engine.base import StageFailed, StageOptions, StageOutput, StageRequest
from duplex.errors import EngineDied, StageError, StateError
from duplex.session.fence import MAIN, Fence
from tests.engine.hosting import Bench, bench, exists, spec

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def test_a_request_is_answered_and_the_process_ends_in_order() -> None:
    async with bench() as made:
        assert await made.answer("one", "two") == ["ONE", "TWO", "."]
        assert made.engine.active == 0
        pid = made.pid
        await made.engine.stop()
        assert not exists(pid)
        assert not made.host.running
        assert made.deaths == []
