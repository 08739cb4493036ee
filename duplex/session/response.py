"""Where the answer of a session stands: the machine of its responses, which come one at a time."""

from __future__ import annotations

from enum import Enum, auto

from duplex.errors import StateError


class ResponseState(Enum):
    """Where the answer stands."""

    IDLE = auto()
    """There is none."""
    WAITING = auto()
    """Its stages are ready; the user's words are still being recognised."""
    GENERATING = auto()
    DRAINING = auto()
    """All is generated; audio remains to be sent."""


class ResponseInput(Enum):
    """What moves the answer."""

    CREATE = auto()
    PROMPT = auto()
    GENERATED = auto()
    SENT = auto()
    STOP = auto()


RESPONSE_TABLE: dict[tuple[ResponseState, ResponseInput], ResponseState] = {
    (ResponseState.IDLE, ResponseInput.CREATE): ResponseState.WAITING,
    (ResponseState.WAITING, ResponseInput.PROMPT): ResponseState.GENERATING,
    (ResponseState.WAITING, ResponseInput.STOP): ResponseState.IDLE,
    (ResponseState.GENERATING, ResponseInput.GENERATED): ResponseState.DRAINING,
    (ResponseState.GENERATING, ResponseInput.STOP): ResponseState.IDLE,
    (ResponseState.DRAINING, ResponseInput.SENT): ResponseState.IDLE,
    (ResponseState.DRAINING, ResponseInput.STOP): ResponseState.IDLE,
}


def moved(state: ResponseState, what: ResponseInput) -> ResponseState:
    """The next state. Raises StateError where the table has none."""
    try:
        return RESPONSE_TABLE[state, what]
    except KeyError:
        raise StateError(f"a response in state {state.name} cannot take {what.name}") from None
