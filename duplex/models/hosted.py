"""A family's engines in an engine process: what the process is told to call, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from duplex.connector.base import Connector
from duplex.engine.base import Engine
from duplex.errors import FamilyError
from duplex.models.family import Resources
from duplex.models.registry import family
from duplex.models.store import ModelStore

SPEC = "duplex.models.hosted:engines"
"""The name of `engines`, for whoever starts the process."""


class Hosted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which engines, and what they may use; numbers and names only, since it travels.

    Attributes:
        family: its name.
        stages: those of this process.
        models_dir, models_owned: of the model store.
        sessions, workers, prefix_caches, context_tokens, llama_threads, llama_batch_threads: see `Resources`.
    """

    family: str
    stages: tuple[str, ...]
    models_dir: str
    models_owned: bool
    sessions: int
    workers: int = 2
    prefix_caches: int = 4
    context_tokens: int = 2048
    llama_threads: int = 1
    llama_batch_threads: int = 1

    def options(self) -> dict[str, Any]:
        """The same as a message may carry it."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return options


def engines(connector: Connector, options: dict[str, Any]) -> Mapping[str, Engine]:
    """Engines by stage, nothing of them loaded yet.

    Raises:
        FamilyError: the options are not those of a `Hosted`, or there is no such family.
        ModelStoreError: a model file is not here.
    """
    try:
        hosted = msgspec.convert(options, Hosted)
    except msgspec.ValidationError as fault:
        raise FamilyError(f"an engine process was given wrong options: {fault}; make them by Hosted") from fault
    store = ModelStore(Path(hosted.models_dir), owned=hosted.models_owned)
    resources = Resources(
        path=store.path,
        connector=connector,
        sessions=hosted.sessions,
        workers=hosted.workers,
        prefix_caches=hosted.prefix_caches,
        context_tokens=hosted.context_tokens,
        llama_threads=hosted.llama_threads,
        llama_batch_threads=hosted.llama_batch_threads,
    )
    return family(hosted.family).build(hosted.stages, resources).engines
