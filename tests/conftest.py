"""What all tests share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from duplex.config import from_arguments
from duplex.models.store import ModelStore


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
