"""What is known of one session from outside."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from duplex.session.notices import Closed, Notice
from duplex.session.port import Audio
from duplex.session.runner import SessionRunner
from tests.session.frozen import frozen

HZ = 24_000


@dataclass(slots=True)
class Listener:
    """What a listener with a perfect clock hears of one answer, which stands still while nobody listens."""

    at_s: float
    sent: int = 0
    played: float = 0.0

    def go(self, now: float, *, on: bool) -> None:
        if on:
            self.played = min(self.sent, self.played + (now - self.at_s) * HZ)
        self.at_s = now


@dataclass(slots=True)
class Record:
    """One session, from outside.

    Attributes:
        told: everything that it has told, in order; `restarted`: what was told before this index may be missed.
        silent: newest epoch that was told to be interrupted.
        epochs: of the responses that were announced, by id; `open`: those that are not done.
        on: whether somebody listens.
        heard: samples by item, of the answers that were cut.
        said: by the client, of what it has played.
        spoilt: the next event meets a bug; `failed`: it has.
    """

    runner: SessionRunner
    acknowledged: bool
    told: list[Notice | Audio] = field(default_factory=list)
    restarted: int = 0
    silent: int = -1
    epochs: dict[str, int] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    listeners: dict[str, Listener] = field(default_factory=dict)
    on: bool = True
    generation: int = 0
    heard: dict[str, int] = field(default_factory=dict)
    said: Counter[str] = field(default_factory=Counter)
    spoilt: bool = False
    failed: bool = False

    @property
    def closed(self) -> bool:
        return bool(self.told) and isinstance(self.told[-1], Closed)


def visible(record: Record) -> object:
    """What a refused event must leave alone; what is immutable is only looked at as a whole."""
    core, answering = record.runner._core, record.runner._core.answering
    items = [(item.item_id, id(item)) for item in core.conversation.items]
    heard = [(answer.item_id, answer.playback._clock_samples, answer.playback.state) for answer in answering.ledgers]
    active = frozen(answering._answer.playback) if answering._answer is not None else None
    inside = frozen([core.listening, core._recognising, core.history._items])
    return items, heard, active, inside, answering.fence, answering.state, id(core.settings), core.closed
