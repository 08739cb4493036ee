"""Where a benchmark ran."""

from __future__ import annotations

import os
import platform
import statistics
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("duplex", "numpy", "onnxruntime", "xllamacpp", "soxr", "msgspec", "starlette", "uvicorn", "websockets")
SIZE = 1024


def describe() -> dict[str, Any]:
    """Processor, cores that this process may use, their load, and versions; for the head of a report."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load": f"{os.getloadavg()[0]:.2f} (1 min, before the run)",
        "speed": f"{gflops():.0f} GFLOP/s, float32 matrices on all cores (cores of one name differ, and are shared)",
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": " ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
    }


def gflops() -> float:
    """Billions of float32 operations a second: the median of some multiplications of 1024 by 1024 matrices."""
    left = np.ones((SIZE, SIZE), np.float32)
    took_s = []
    for _ in range(9):
        began_s = time.perf_counter()
        left @ left
        took_s.append(time.perf_counter() - began_s)
    return 2 * SIZE**3 / statistics.median(took_s) / 1e9


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
