"""The connector in memory against a model of it, and by several threads at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from duplex.connector.base import Handle
from duplex.connector.memory import MemoryConnector
from duplex.connector.payload import Text, Voiced
from duplex.errors import ConnectorFull, StaleFence, UnknownHandle
from duplex.session.fence import Fence

BUDGET = 100
FENCES = st.builds(
    Fence, st.sampled_from(["s", "t"]), st.integers(0, 1), st.sampled_from(["main", "other"]), st.integers(0, 3)
)


class ConnectorMachine(RuleBasedStateMachine):
    """Puts, takes, shares and retires in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.connector = MemoryConnector(budget_bytes=BUDGET)
        self.held: dict[Handle, int] = {}
        self.gone: list[Handle] = []
        self.retired: list[Fence] = []

    def is_retired(self, fence: Fence) -> bool:
        return any(fence == one or one.outdates(fence) for one in self.retired)

    @rule(fence=FENCES, size=st.integers(0, 60))
    def put(self, fence: Fence, size: int) -> None:
        room = BUDGET - sum(handle.nbytes for handle in self.held)
        try:
            handle = self.connector.put(fence, Text(text="x" * size, start=0))
        except StaleFence:
            assert self.is_retired(fence)
        except ConnectorFull:
            assert size > room
            assert not self.is_retired(fence)
        else:
            assert not self.is_retired(fence)
            assert size <= room
            self.held[handle] = 1

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        handles = [*self.held, *self.gone]
        if not handles:
            return
        handle = data.draw(st.sampled_from(handles))
        if handle in self.held:
            assert self.connector.take(handle).nbytes == handle.nbytes
            self.held[handle] -= 1
            if self.held[handle] == 0:
                del self.held[handle]
                self.gone.append(handle)
        else:
            with pytest.raises(UnknownHandle):
                self.connector.take(handle)

    @rule(data=st.data(), readers=st.integers(1, 3))
    def share(self, data: st.DataObject, readers: int) -> None:
        handles = [*self.held, *self.gone]
        if handles:
            handle = data.draw(st.sampled_from(handles))
            self.connector.share(handle, readers)
            if handle in self.held:
                self.held[handle] = readers

    def drop(self, handles: list[Handle]) -> int:
        for handle in handles:
            del self.held[handle]
            self.gone.append(handle)
        return sum(handle.nbytes for handle in handles)

    @rule(fence=FENCES)
    def retire(self, fence: Fence) -> None:
        self.retired.append(fence)
        dropped = self.drop([one for one in self.held if self.is_retired(one.fence)])
        assert self.connector.retire(fence) == dropped

    @rule(session_id=st.sampled_from(["s", "t"]))
    def forget(self, session_id: str) -> None:
        held = self.connector.held(session_id)
        dropped = self.drop([one for one in self.held if one.fence.session_id == session_id])
        assert self.connector.forget(session_id) == dropped == held
        assert self.connector.held(session_id) == 0
        self.retired = [fence for fence in self.retired if fence.session_id != session_id]

    @invariant()
    def ledger_is_reality(self) -> None:
        assert self.connector.nbytes == sum(handle.nbytes for handle in self.held)
        assert len(self.connector) == len(self.held)


TestConnector = ConnectorMachine.TestCase
TestConnector.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_a_handle_says_of_audio_what_control_must_know() -> None:
    connector = MemoryConnector(budget_bytes=BUDGET)
    audio = Voiced(samples=np.zeros(7, np.int16), rate_hz=24_000, text_end=3)
    handle = connector.put(Fence("s", 0, "main", 0), audio)
    assert (handle.samples, handle.text_end, handle.nbytes) == (7, 3, 14)


def test_threads_lose_and_double_nothing() -> None:
    connector = MemoryConnector(budget_bytes=1 << 30)
    fence, taken = Fence("s", 0, "main", 0), []

    def work() -> None:
        for number in range(500):
            handle = connector.put(fence, Text(text="abc", start=number))
            taken.append(connector.take(handle))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 2000
    assert connector.nbytes == len(connector) == 0


def test_a_retired_turn_takes_the_earlier_ones_of_its_lane_along() -> None:
    connector = MemoryConnector(budget_bytes=BUDGET)
    fence = Fence("s", 0, "main", 0)
    old = connector.put(fence, Text(text="old", start=0))
    other = connector.put(fence._replace(lane="other"), Text(text="stays", start=0))
    assert connector.retire(fence._replace(epoch=1)) == 3
    with pytest.raises(UnknownHandle):
        connector.take(old)
    assert connector.take(other).nbytes == 5
