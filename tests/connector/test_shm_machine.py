"""Two connectors over shared memory that read each other's arenas, against a model of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duplex.connector.arena import MIN_BYTES, Geometry
from duplex.connector.base import Handle, Place
from duplex.connector.extents import aligned
from duplex.connector.payload import Latents, Tensor
from duplex.connector.shm import ShmConnector
from duplex.errors import ConnectorFull, StaleFence, UnknownHandle
from duplex.session.fence import Fence
from tests.connector.holder import dies

GEOMETRY = Geometry.of(MIN_BYTES)
FENCES = st.builds(
    Fence, st.sampled_from(["s", "t"]), st.integers(0, 1), st.sampled_from(["main", "other"]), st.integers(0, 3)
)
WHO = st.integers(0, 1)


@dataclass(eq=False)
class Put:
    """A payload that was put, as the model knows it: `views` are who reads it, and what he got."""

    handle: Handle
    byte: int
    left: int = 1
    untouched: bool = True
    shut: bool = False
    views: list[tuple[int, Latents]] = field(default_factory=list)

    @property
    def place(self) -> Place:
        assert self.handle.place is not None
        return self.handle.place

    @property
    def nbytes(self) -> int:
        return aligned(self.place.length)

    @property
    def is_held(self) -> bool:
        return bool(self.views) or (self.left > 0 and not self.shut)


class Machine(RuleBasedStateMachine):
    """Puts, takes, lets go, shares, retires, and dies, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = [ShmConnector(number, MIN_BYTES, first_generation=1) for number in (0, 1)]
        self.deaths = 0
        self.introduce()
        self.puts: list[Put] = []
        self.lost: list[Put] = []
        self.retired: list[list[Fence]] = [[], []]
        self.byte = 0

    def introduce(self) -> None:
        one, other = self.ends
        one.add_peer(1, other.fd, other.arena_bytes)
        other.add_peer(0, one.fd, one.arena_bytes)

    def is_retired(self, who: int, fence: Fence) -> bool:
        return any(fence == one or one.outdates(fence) for one in self.retired[who])

    def held(self, who: int) -> list[Put]:
        return [put for put in self.puts if put.place.owner == who and put.is_held]

    def has_room(self, who: int, nbytes: int) -> bool:
        taken = sorted((put.place.offset, put.place.offset + put.nbytes) for put in self.held(who))
        starts = [0, *(end for _, end in taken)]
        ends = [*(start for start, _ in taken), GEOMETRY.payloads]
        fits = any(end - start >= nbytes for start, end in zip(starts, ends, strict=True))
        return fits and len(taken) < GEOMETRY.slots

    @rule(who=WHO, fence=FENCES, size=st.sampled_from([0, 1, 64, 5_000, 15_000, 40_000]))
    def put(self, who: int, fence: Fence, size: int) -> None:
        if self.is_retired(who, fence):
            with pytest.raises(StaleFence):
                self.ends[who].put(fence, Latents(tensors=()))
            fence = fence._replace(generation=9, epoch=self.byte)
        self.byte = (self.byte + 1) % 251
        payload = Latents(tensors=(Tensor.of(np.full(size, self.byte, np.uint8)),))
        try:
            handle = self.ends[who].put(fence, payload)
        except ConnectorFull:
            assert not self.has_room(who, aligned(aligned(size) + 30))
            return
        assert handle.nbytes == size
        self.puts.append(Put(handle, self.byte))

    @precondition(lambda self: any(put.left and not put.shut for put in self.puts))
    @rule(who=WHO, data=st.data(), any_of_all=st.booleans())
    def take(self, who: int, data: st.DataObject, any_of_all: bool) -> None:
        open_ones = [put for put in self.puts if put.left and not put.shut]
        choice = self.puts + self.lost if any_of_all else open_ones
        put = data.draw(st.sampled_from(choice))
        if put not in open_ones or self.is_retired(who, put.handle.fence):
            with pytest.raises(UnknownHandle):
                self.ends[who].take(put.handle)
            return
        payload = self.ends[who].take(put.handle)
        assert isinstance(payload, Latents)
        put.left -= 1
        put.untouched = False
        if payload.nbytes:
            put.views.append((who, payload))

    @precondition(lambda self: any(put.views for put in self.puts))
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        put = data.draw(st.sampled_from([put for put in self.puts + self.lost if put.views]))
        del put.views[data.draw(st.integers(0, len(put.views) - 1))]

    @precondition(lambda self: any(put.untouched and not put.shut for put in self.puts))
    @rule(who=WHO, data=st.data(), readers=st.integers(2, 3))
    def share(self, who: int, data: st.DataObject, readers: int) -> None:
        put = data.draw(st.sampled_from([put for put in self.puts if put.untouched and not put.shut]))
        self.ends[who].share(put.handle, readers)
        put.left = readers

    @precondition(lambda self: self.puts)
    @rule(who=WHO, fence=FENCES, data=st.data())
    def retire(self, who: int, fence: Fence, data: st.DataObject) -> None:
        live = sorted({put.handle.fence for put in self.puts if put.is_held})
        if live and data.draw(st.booleans()):
            fence = data.draw(st.sampled_from(live))
        self.retired[who].append(fence)
        self.drop(who, [put for put in self.held(who) if self.is_retired(who, put.handle.fence)], fence)

    @precondition(lambda self: self.puts)
    @rule(who=WHO, session_id=st.sampled_from(["s", "t"]))
    def forget(self, who: int, session_id: str) -> None:
        self.retired[who] = [fence for fence in self.retired[who] if fence.session_id != session_id]
        self.drop(who, [put for put in self.held(who) if put.handle.fence.session_id == session_id], session_id)

    def drop(self, who: int, puts: list[Put], what: Fence | str) -> None:
        given_back = sum(put.nbytes for put in puts if not put.views)
        for put in puts:
            put.shut = True
        end = self.ends[who]
        assert (end.retire(what) if isinstance(what, Fence) else end.forget(what)) == given_back

    @precondition(lambda self: any(put.views for put in self.puts))
    @rule(who=WHO)
    def die(self, who: int) -> None:
        """A process ends in the middle of all that it does; another takes its number."""
        dies(self.ends[who])
        for put in self.puts + self.lost:
            put.views = [(reader, view) for reader, view in put.views if reader != who]
        self.lost += [put for put in self.puts if put.place.owner == who]
        self.puts = [put for put in self.puts if put.place.owner != who]
        self.ends[who].close()
        self.ends[1 - who].drop_peer(who)
        self.deaths += 1
        self.ends[who] = ShmConnector(who, MIN_BYTES, first_generation=1 + 1000 * self.deaths)
        self.retired[who] = []
        self.introduce()

    @precondition(lambda self: self.puts)
    @rule()
    def audit(self) -> None:
        """No invariant, for whoever asks sweeps: a full arena must do so itself."""
        for who, end in enumerate(self.ends):
            held = self.held(who)
            assert end.nbytes == sum(put.nbytes for put in held)
            assert len(end) == len(held)
            for session_id in ("s", "t"):
                mine = [put.nbytes for put in held if put.handle.fence.session_id == session_id]
                assert end.held(session_id) == sum(mine)

    @invariant()
    def what_is_read_stays_as_it_was(self) -> None:
        for put in self.puts + self.lost:
            for _, view in put.views:
                array = view.tensors[0].array()
                assert not array.flags.writeable
                assert array[0] == array[-1] == put.byte

    def teardown(self) -> None:
        self.audit()
        for put in self.puts + self.lost:
            put.views.clear()
        for end in self.ends:
            assert end.forget("s") + end.forget("t") >= 0
            assert end.nbytes == len(end) == 0
            end.close()


TestShm = Machine.TestCase
TestShm.settings = settings(max_examples=120, stateful_step_count=50)
