"""What all tests share."""

from __future__ import annotations

import argparse
import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path

import hypothesis
import pytest

from duplex.config import from_arguments
from duplex.models.store import ModelStore

# A busy machine makes any example slow, and says nothing of the code; what hangs is ended by each test's timeout. The
# same examples each time, so that a run is red because of what was changed; `make thorough` is who looks for new ones.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True, database=None)
# `make thorough`: a quarter of an hour, for those who change the kernel.
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile("same")

BOUND = 0.8
"""Part of a test's timeout after which one in an event loop is ended from inside. What pytest-timeout raises out of a
signal's handler ends the loop's runner, and the whole run then hangs."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test that is a coroutine its bound."""
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            own = item.get_closest_marker("timeout")
            timeout_s = float(own.args[0] if own is not None else config.getini("timeout"))
            item.obj = _bounded(item.obj, BOUND * timeout_s)


def _bounded(test: Callable[..., Awaitable[None]], timeout_s: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def bounded(*arguments: object, **fixtures: object) -> None:
        async with asyncio.timeout(timeout_s):
            await test(*arguments, **fixtures)

    return bounded


@pytest.fixture
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, the loop that the server uses."""
    return "asyncio"


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """Where a real model file lies, by its key.

    A test marked `models` fails where the file is absent, and the error says how to fetch it: skipping would hide it.
    """
    config = from_arguments(argparse.Namespace())
    return ModelStore(config.models_path, owned=config.models_dir is None).path
