"""Resource limits of a run in a child process, and the measurement of what it used."""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..records.run import Usage
from ..task.interruption import Interrupted

# CPU seconds after the interruption, if it has no effect, at which the system kills the process.
KILL_AFTER_SECONDS = 1
_STATUS = "/proc/self/status"
_PEAK = "/proc/self/clear_refs"
# More than a status has.
_STATUS_BYTES = 1 << 16


class CpuLimitExceeded(Interrupted):
    """Raised inside a function that exceeds its CPU limit."""


class UsageMeter:
    """Measures resource usage from its creation on."""

    def __init__(self) -> None:
        with suppress(OSError):  # not every system lets a process reset its peak
            _write(_PEAK, b"5")
        self._spent = cpu_seconds()

    def read(self) -> tuple[Usage, int]:
        """The resources used, and the resident bytes now."""
        peak, held = _status("VmHWM", "VmRSS")
        return Usage(cpu_seconds() - self._spent, peak or _peak_bytes()), held


def cpu_seconds() -> float:
    """CPU seconds used by this process so far, including helpers it has waited for."""
    own, helpers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + helpers.ru_utime + helpers.ru_stime


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(*fields: str) -> list[int]:
    """Fields of /proc/self/status in bytes; 0 if the system does not report them."""
    text = b""
    with suppress(OSError):
        text = _read(_STATUS)
    return [_kilobytes(text, b"\n%s:" % field.encode()) * 1024 for field in fields]


def _kilobytes(text: bytes, label: bytes) -> int:
    at = text.find(label)
    return 0 if at < 0 else int(text[at + len(label) :].split(maxsplit=1)[0])


# Not by Path, nor by open(): every run reads and writes one of these files, and they would take 20 µs more.


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _STATUS_BYTES)
    finally:
        os.close(file)


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)


@contextmanager
def apply_limits(memory_limit: int | None, cpu_limit: float | None) -> Iterator[Callable[[], float]]:
    """Applies the limits inside the block. Over memory: MemoryError. Over CPU time: SIGPROF, then a fatal SIGXCPU.

    Yields a function that returns the CPU seconds left: SIGPROF counts clock ticks, and may come early.
    """
    data, cpu = resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_CPU)
    end = math.inf if cpu_limit is None else _own_cpu_seconds() + cpu_limit
    try:
        if cpu_limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, _lower(cpu, math.ceil(end) + KILL_AFTER_SECONDS))
            signal.setitimer(signal.ITIMER_PROF, cpu_limit)
        if memory_limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, _lower(data, _status("VmData")[0] + memory_limit))
        yield lambda: end - _own_cpu_seconds()
    finally:
        if memory_limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, data)
        if cpu_limit is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_CPU, cpu)


def _own_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _lower(limits: tuple[int, int], wanted: int) -> tuple[int, int]:
    """The wanted soft limit, unless the present one is lower."""
    soft, hard = limits
    return (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)), hard
