"""Keeps glibc's heap small: models come and go in large pieces on several threads, and each leaves a hole."""

from __future__ import annotations

import ctypes

# malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_MIB = 1 << 20


def keep_small() -> bool:
    """Give large memory back when it is free; to be called before there are threads. False where there is no glibc.

    One arena instead of eight per core, and in a mapping of its own only what is larger than any tensor of a short
    turn: with glibc's own 128 KiB each run of a model maps and clears its tensors anew, which took as long as the model
    itself (end of turn: 27 ms of work became 57).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    options = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 4 * _MIB), (_M_TRIM_THRESHOLD, 16 * _MIB))
    return all([mallopt(option, value) == 1 for option, value in options])
