"""Where a benchmark ran."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("duplex", "numpy", "onnxruntime", "xllamacpp", "soxr", "msgspec", "starlette", "uvicorn", "websockets")


def describe() -> dict[str, Any]:
    """Processor, cores that this process may use, their load, and versions; for the head of a report."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load": f"{os.getloadavg()[0]:.2f} (1 min, before the run)",
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": " ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
    }


def stolen_s() -> float:
    """CPU seconds that other guests have taken from this machine since it started (Linux, proc(5), field `steal`)."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
