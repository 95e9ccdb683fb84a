"""How worn a process is: the runs it has had and the memory it holds."""

from __future__ import annotations

import os
import sys

from ..clock import Clock

# Reading the memory costs a system call or three; nobody needs to know it more often than this, in seconds.
LOOK = 1.0
MB = 1 << 20


class RecyclePolicy:
    """Counts runs, looks at the memory now and then, and says when a limit is reached; 0 is no limit."""

    def __init__(self, clock: Clock, *, jobs: int = 0, memory: int = 0) -> None:
        self._clock = clock
        self._most_jobs = jobs
        self._most_memory = memory
        self._look_at = clock.monotonic()
        self.jobs = 0

    def reason(self) -> str | None:
        """Why the process should give way to a fresh one. One that has run nothing never does, or it would for ever."""
        if not self.jobs:
            return None
        if self._most_jobs and self.jobs >= self._most_jobs:
            return f"ran {self.jobs} job{'s' * (self.jobs != 1)}"
        if self._most_memory and self._clock.monotonic() >= self._look_at:
            self._look_at = self._clock.monotonic() + LOOK
            used = resident()
            if used > self._most_memory:
                return f"uses {-(-used // MB)} MB, more than {self._most_memory // MB} MB"
        return None


def resident() -> int:
    """The memory of this process in bytes; where the system does not tell, its peak, or 0."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return _peak()


def _peak() -> int:
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
