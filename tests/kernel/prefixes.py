"""The language model: few slots for many conversations. Their table is the server's own, what is in them is here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duplex.connector.payload import Payload, Prompt, Text
from duplex.engine.kv import KvSlot
from duplex.engine.side_door import SlotReport
from duplex.engine.slots import KV, KvSlots
from duplex.errors import StaleState, StateError, UnknownState
from duplex.session.fence import Fence
from duplex.state.ref import StateKey
from tests.kernel.engines import Job, Stage

SLOTS = 2
ROOM = 10_000
"""Tokens; a word is one."""


@dataclass(slots=True)
class Run:
    """A request on a slot. `cached`: tokens that it found there; `prompt`: tokens that it was given."""

    slot: KvSlot
    cached: int | None = None
    prompt: int = 0


class Prefixes:
    """The slots, and the tokens in them.

    Attributes:
        dying: requests that were stopped, and still have their slot.
    """

    def __init__(self) -> None:
        self.table = KvSlots(
            owner="think", slots=SLOTS, slot_bytes=1000, copier=self, read_s=lambda tokens: tokens / 100
        )
        self.tokens: list[list[str]] = [[] for _ in range(SLOTS)]
        self.running: dict[Fence, Run] = {}
        self.dying: list[Fence] = []

    def save(self, slot: int) -> tuple[int, bytes]:
        """Nothing is copied here."""
        raise NotImplementedError

    def load(self, slot: int, copy: bytes) -> int:
        raise NotImplementedError

    def begin(self, fence: Fence) -> bool:
        """Whether it has a slot. Raises StaleState where a later request has come."""
        if fence not in self.running and (slot := self.table.acquire(fence)) is not None:
            self.running[fence] = Run(slot)
        return fence in self.running

    def read(self, fence: Fence, prompt: Prompt) -> None:
        """As many tokens as are the same are not read again; the others are written over."""
        run = self.running[fence]
        wanted = " ".join(f"{message.role} {message.text}" for message in prompt.messages).split()
        there = self.tokens[run.slot.index]
        same = next((at for at, pair in enumerate(zip(there, wanted, strict=False)) if pair[0] != pair[1]), None)
        run.cached, run.prompt = min(len(there), len(wanted)) if same is None else same, len(wanted)
        self.tokens[run.slot.index] = wanted

    def write(self, fence: Fence, word: str) -> None:
        if fence in self.running:
            self.tokens[self.running[fence].slot.index] += word.split()

    def end(self, fence: Fence, *, whole: bool) -> None:
        """The request is over; nothing where it had no slot."""
        if (run := self.running.pop(fence, None)) is not None:
            held = len(self.tokens[run.slot.index]) if whole and run.cached is not None else None
            self.table.give_back(run.slot, fence, cached=run.cached, prompt=run.prompt, held=held)

    def let_go(self) -> None:
        """What was stopped has stopped."""
        while self.dying:
            self.end(self.dying.pop(), whole=False)

    def evict(self, session_id: str) -> bool:
        """Take a conversation's slot away, for another that leaves nothing of it. False where there is none, or where
        it runs: then nothing changes."""
        key = StateKey(session_id, KV)
        slot = self.table.store.get(key)
        try:
            self.table.store.evict(key)
        except UnknownState:
            return False
        except StateError:
            assert slot is not None
            assert slot.in_use
            return False
        assert slot is not None
        assert not slot.in_use, "a slot is taken away from under its request"
        self.tokens[slot.index] = ["another's"]
        return True

    def release(self, session_id: str) -> None:
        self.table.release(session_id)

    def findings(self) -> list[str]:
        reports = [SlotReport(room=ROOM, tokens=len(tokens), busy=False) for tokens in self.tokens]
        return self.table.check_integrity(reports, since=self.table.resting())


class ThinkingStage(Stage):
    """Answers prompts, each on a slot; where all of them run it waits."""

    def __init__(self, *, prefixes: Prefixes, **others: Any) -> None:
        super().__init__(**others)
        self.prefixes = prefixes

    def work(self, job: Job) -> None:
        if job.inbox:
            try:
                if not self.prefixes.begin(job.fence):
                    return
            except StaleState:
                self.account.expect(
                    self.account.is_dead(job.fence), f"{job.fence} is called stale, and was not aborted"
                )
                self.crash(job, "stale")
                return
        super().work(job)
        if job.fence not in self.jobs:
            self.prefixes.end(job.fence, whole=True)

    def took(self, job: Job, payload: Payload) -> None:
        if isinstance(payload, Prompt):
            self.prefixes.read(job.fence, payload)

    def said(self, job: Job, payload: Payload) -> None:
        super().said(job, payload)
        if isinstance(payload, Text):
            self.prefixes.write(job.fence, payload.text)

    def abort(self, fence: Fence) -> None:
        super().abort(fence)
        if fence in self.prefixes.running:
            self.prefixes.dying.append(fence)

    def crash(self, job: Job, why: str = "broke") -> None:
        super().crash(job, why)
        self.prefixes.end(job.fence, whole=False)

    def speak_too_late(self) -> None:
        super().speak_too_late()
        self.prefixes.let_go()
