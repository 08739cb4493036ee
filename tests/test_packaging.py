"""What is installed is what was tested, and never torch."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import duplex

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.lower().replace("_", "-").split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
)


def test_every_lower_bound_is_the_version_that_is_pinned() -> None:
    requirements = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    for requirement in requirements:
        matched = re.match(r"([a-z0-9-]+)[=>]=([0-9.]+)", requirement)
        assert matched, requirement
        assert PINS[matched[1]] == matched[2], f"{requirement} is not what constraints.txt pins: run `make lock`"


def test_no_torch() -> None:
    assert not [name for name in PINS if re.match(r"torch|nvidia|triton|tensorflow|jax", name)]


def test_the_version_is_one() -> None:
    assert PROJECT["version"] == duplex.__version__
