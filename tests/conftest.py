"""What all tests share."""

from __future__ import annotations

import argparse

import pytest

from duplex.config import from_arguments
from duplex.models.store import ModelStore


@pytest.fixture
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, the loop that the server uses."""
    return "asyncio"


@pytest.fixture(scope="session")
def model_store() -> ModelStore:
    """The real models. A test marked `models` fails, and says how to fetch them, where they are absent."""
    config = from_arguments(argparse.Namespace())
    return ModelStore(config.models_path, owned=config.models_dir is None)
