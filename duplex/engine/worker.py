"""What a model's adapter implements, so that `engine/pooled.py` can run it for many requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from duplex.connector.payload import Kind, Payload
from duplex.engine.base import StageRequest

Emit = Callable[[Payload], bool]
"""Gives one chunk of output away. False: the request is over, stop now and return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a worker consumed for one request; see `engine.base.StageFinished`."""

    reason: str = "stop"
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class Worker(Protocol):
    """One request of one stage. Its methods run on a pool's thread, never two at a time, in the order of the input.

    Whatever a method raises fails this request alone.
    """

    def feed(self, payload: Payload, emit: Emit) -> None:
        """Take one chunk of input; emit whatever it makes possible."""

    def finish(self, emit: Emit) -> Usage:
        """No input follows: emit the rest."""

    def close(self) -> None:
        """Give back what the request holds; called exactly once, also after an abort or a failure."""


@runtime_checkable
class Cancellable(Worker, Protocol):
    """A worker that computes for long between two calls of `emit` may have this method as well."""

    def cancel(self) -> None:
        """The request is over: return from what runs now as soon as can be.

        Called from any thread while another method runs, at most once and never after `close`; does not wait.
        """


Waiting = Callable[[Kind], bool]
"""Whether input of this kind, or the word that none follows, waits to be fed; also True once the request is over."""


@runtime_checkable
class Speculative(Worker, Protocol):
    """A worker that has something useful to do while it waits for input may have this method as well."""

    def idle(self, emit: Emit, waiting: Waiting) -> None:
        """Called after a chunk where no further one waits. Return soon once input comes that is worth more."""


WorkerFactory = Callable[[StageRequest], Worker]
"""Makes a worker for a request. Cheap: models are loaded before, once, and shared."""
