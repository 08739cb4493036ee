"""Places: none twice, none lost."""

from __future__ import annotations

import pytest

from duplex.errors import AdmissionRefused, StateError
from duplex.session.admission import Admission


def test_a_place_is_taken_and_given_back_once() -> None:
    admission = Admission(capacity=2)
    admission.admit("a")
    admission.admit("b")
    with pytest.raises(AdmissionRefused, match="All 2 sessions"):
        admission.admit("c")
    with pytest.raises(StateError):
        admission.admit("a")
    admission.release("a")
    with pytest.raises(StateError):
        admission.release("a")
    admission.admit("c")
    assert len(admission) == 2
