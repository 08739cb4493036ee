"""Stands as conftest.py where a mutant is tried: finding a failure is enough, shrinking it is not wanted."""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile(
    "mutants", phases=(Phase.explicit, Phase.generate), database=None, deadline=None, print_blob=False, derandomize=True
)
settings.load_profile("mutants")
