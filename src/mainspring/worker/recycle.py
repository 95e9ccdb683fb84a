"""When to recycle a worker process: limits on its runs and its memory."""

from __future__ import annotations

import os
import sys

from ..clock import Clock

# Reading the memory costs up to three system calls; this is often enough.
MEMORY_POLL_SECONDS = 1.0
MB = 1 << 20


class RecyclePolicy:
    """Counts runs, polls the memory, and reports when a limit is reached (0: no limit)."""

    def __init__(self, clock: Clock, *, jobs: int = 0, memory: int = 0) -> None:
        self._clock = clock
        self._max_jobs = jobs
        self._max_memory = memory
        self._next_poll_at = clock.monotonic()
        self.jobs = 0

    def count_run(self) -> None:
        self.jobs += 1

    def reason(self) -> str | None:
        """Why the process should be replaced; None before its first run, else a low limit would replace it for ever."""
        if not self.jobs:
            return None
        if self._max_jobs and self.jobs >= self._max_jobs:
            return f"ran {self.jobs} job{'s' * (self.jobs != 1)}"
        if self._max_memory and self._clock.monotonic() >= self._next_poll_at:
            self._next_poll_at = self._clock.monotonic() + MEMORY_POLL_SECONDS
            used = resident_bytes()
            if used > self._max_memory:
                return f"uses {-(-used // MB)} MB, more than {self._max_memory // MB} MB"
        return None


def resident_bytes() -> int:
    """Resident memory of this process in bytes; its peak, or 0, where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return _peak_bytes()


def _peak_bytes() -> int:
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
