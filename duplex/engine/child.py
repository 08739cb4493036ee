"""The main of an engine process: ``python -m duplex.engine.child --fd N --parent PID``. Started by `engine/process.py`.

What must hold from the first moment comes before anything heavy is imported: libraries make their threads then, on the
cores that the process has. Nothing of ours is imported above for that reason.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1
"""prctl.h"""

_STDERR = 2

_ORPHAN = 3
"""Exit code, which nobody is there to see."""


def bind_to(parent: int) -> None:
    """Die when `parent` does, whatever this process is at; and now, if it has died already.

    The kernel sends the signal when the thread ends that has spawned this process: it is the one with the event loop.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG")
    if os.getppid() != parent:
        os._exit(_ORPHAN)


def main(argv: list[str]) -> int:
    """Serve until told to stop; returns the exit code."""
    parser = argparse.ArgumentParser(prog="duplex.engine.child", description="An engine process; the server starts it.")
    parser.add_argument("--fd", type=int, required=True, help="the control socket")
    parser.add_argument("--parent", type=int, required=True, help="process with which this one dies")
    parser.add_argument("--name", default="engine", help="what it is called, for people who list processes")
    parser.add_argument("--cpus", default="", help="cores to run on, as 0,1,2")
    arguments = parser.parse_args(argv)
    bind_to(arguments.parent)
    # A descriptor that slipped in would keep a port or a dead process's socket open.
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > _STDERR and fd != arguments.fd:
            with contextlib.suppress(OSError):
                os.close(fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent stops us, in order.
    if arguments.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in arguments.cpus.split(",")})
    end = socket.socket(fileno=arguments.fd)
    end.setblocking(False)
    end.set_inheritable(False)

    from duplex.engine.inside import serve

    return serve(end)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
