"""What a run in a child process may use, and what it did use."""

from __future__ import annotations

import math
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..records.run import Usage
from ..task.interruption import Interrupted

# Where the interruption is not heeded, the system ends the process this many CPU seconds later.
KILL_AFTER_SECONDS = 1
_STATUS = Path("/proc/self/status")
_PEAK = Path("/proc/self/clear_refs")


class CpuLimitExceeded(Interrupted):
    """Raised inside a function that used more CPU time than it may."""


class UsageMeter:
    """Counts from its making."""

    def __init__(self) -> None:
        with suppress(OSError):  # not every system lets a process forget its peak
            _PEAK.write_text("5")
        self._spent = spent()

    def read(self) -> tuple[Usage, int]:
        """What was used, and the bytes that are still held."""
        peak, held = _status("VmHWM", "VmRSS")
        return Usage(spent() - self._spent, peak or _maxrss()), held


def spent() -> float:
    """CPU seconds of this process's life, and of the helpers it waited for."""
    own, helpers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + helpers.ru_utime + helpers.ru_stime


def _maxrss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(*fields: str) -> list[int]:
    """What the system says of this process, in bytes; 0 where it does not say."""
    lines: dict[str, str] = {}
    with suppress(OSError):
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return [int(lines[field].split()[0]) * 1024 if field in lines else 0 for field in fields]


@contextmanager
def limited(memory_limit: int | None, cpu_limit: float | None) -> Iterator[Callable[[], float]]:
    """Over memory: MemoryError. Over CPU time: SIGPROF, and soon after SIGXCPU, which nobody survives.

    Gives a function that tells the CPU seconds left: SIGPROF is counted in ticks, and may come early.
    """
    data, cpu = resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_CPU)
    end = math.inf if cpu_limit is None else _own() + cpu_limit
    try:
        if cpu_limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, _lower(cpu, math.ceil(end) + KILL_AFTER_SECONDS))
            signal.setitimer(signal.ITIMER_PROF, cpu_limit)
        if memory_limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, _lower(data, _status("VmData")[0] + memory_limit))
        yield lambda: end - _own()
    finally:
        if memory_limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, data)
        if cpu_limit is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_CPU, cpu)


def _own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _lower(limits: tuple[int, int], wanted: int) -> tuple[int, int]:
    """The soft limit wanted, if the one in force is not lower still."""
    soft, hard = limits
    return (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)), hard
