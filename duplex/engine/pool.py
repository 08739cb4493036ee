"""A few threads that run jobs in order of urgency; one pool serves several engines."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from duplex.errors import PoolFull, StateError

Job = Callable[[], None]

URGENT = 0
"""The most urgent priority; the pool's reserved threads take nothing else."""


class WorkerPool:
    """Runs jobs on a fixed set of threads: the lowest priority number first, oldest first within one number.

    A running job is never interrupted, so an urgent job waits at most for the shortest of the jobs that run; with a
    reserved thread it waits only for other urgent ones. Threads sleep while there is nothing to do. Every method
    may be called from any thread.

    A job that raises is a bug of whoever submitted it: it is reported through `threading.excepthook`, and its thread
    lives on.

    Args:
        threads: number of threads that take any job.
        name: prefix of the threads' names.
        capacity: most jobs that may wait. The policy when full is to refuse: whoever submits has to give up something.
        reserved: number of further threads, which take jobs of priority `URGENT` only.
    """

    def __init__(self, *, threads: int, name: str, capacity: int, reserved: int = 0) -> None:
        if threads < 1 or capacity < 1 or reserved < 0:
            raise StateError(f"pool {name}: needs at least one thread and room for one job")
        self._name = name
        self._capacity = capacity
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Job]] = []
        self._order = itertools.count()
        self._closed = False
        # Daemons: a start-up that fails before anyone could call `close` must not keep the process alive.
        self._threads = [
            threading.Thread(target=self._work, args=(number >= threads,), name=f"{name}-{number}", daemon=True)
            for number in range(threads + reserved)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        with self._changed:
            return len(self._waiting)

    def submit(self, priority: int, job: Job) -> None:
        """Have `job` run; a lower `priority` runs earlier, `URGENT` is the lowest.

        Raises:
            PoolFull: as many jobs wait as may; the job was not taken.
            StateError: the pool is closed, or the priority is below `URGENT`.
        """
        if priority < URGENT:
            raise StateError(f"pool {self._name}: priority {priority} is below {URGENT}")
        with self._changed:
            if self._closed:
                raise StateError(f"pool {self._name} is closed")
            if len(self._waiting) >= self._capacity:
                raise PoolFull(f"pool {self._name}: {self._capacity} jobs are waiting already; admit fewer sessions")
            heapq.heappush(self._waiting, (priority, next(self._order), job))
            # Not notify(): it might wake a reserved thread, which would leave an ordinary job lying.
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse new jobs, run those that wait, and return when every thread has ended. Not from a pool's thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self, urgent_only: bool) -> None:
        while (job := self._next(urgent_only)) is not None:
            try:
                job()
            except Exception as error:  # the runner's boundary: one job's bug must not cost the others their thread
                report = (type(error), error, error.__traceback__, threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(report))
            del job  # what a job refers to must not live until the next one comes

    def _next(self, urgent_only: bool) -> Job | None:
        with self._changed:
            while True:
                if self._waiting and not (urgent_only and self._waiting[0][0] != URGENT):
                    return heapq.heappop(self._waiting)[2]
                if self._closed:
                    return None
                self._changed.wait()
