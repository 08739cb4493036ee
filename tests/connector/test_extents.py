"""Free bytes of an arena against a model that remembers each byte."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from duplex.connector.extents import ALIGN, Extents, aligned

UNITS = 12


class ExtentsMachine(RuleBasedStateMachine):
    """`used` has one number per unit: the allocation that holds it, or 0."""

    def __init__(self) -> None:
        super().__init__()
        self.extents = Extents(UNITS * ALIGN)
        self.used = [0] * UNITS
        self.count = 0

    def first_fit(self, units: int) -> int | None:
        starts = range(UNITS - units + 1)
        return next((start for start in starts if not any(self.used[start : start + units])), None)

    @rule(units=st.integers(1, UNITS + 1))
    def allocate(self, units: int) -> None:
        wanted = self.first_fit(units)
        offset = self.extents.allocate(units * ALIGN)
        assert offset == (None if wanted is None else wanted * ALIGN)
        if wanted is not None:
            self.count += 1
            self.used[wanted : wanted + units] = [self.count] * units

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        held = sorted({number for number in self.used if number})
        if held:
            number = data.draw(st.sampled_from(held))
            start, units = self.used.index(number), self.used.count(number)
            self.extents.release(start * ALIGN, units * ALIGN)
            self.used = [0 if one == number else one for one in self.used]

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.extents.free == self.used.count(0) * ALIGN


TestExtents = ExtentsMachine.TestCase
TestExtents.settings = settings(max_examples=100, stateful_step_count=40)


def test_sizes_are_rounded_up() -> None:
    assert [aligned(nbytes) for nbytes in (0, 1, ALIGN, ALIGN + 1)] == [0, ALIGN, ALIGN, 2 * ALIGN]
