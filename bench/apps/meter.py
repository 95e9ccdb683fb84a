"""What a job tells the outside: a count in a mapped file, delays in a text file. Standard library only."""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Jobs of a chain, for every system with flows.
STEPS = 10
_LAYOUT = struct.Struct("<qdd")


class Count(NamedTuple):
    """Jobs run so far, and when the first and the last of them ran (Unix time)."""

    jobs: int = 0
    first: float = 0.0
    last: float = 0.0


class Meter:
    """Written by the worker; costs a job less than a microsecond."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._count = Count()
        self._map: mmap.mmap | None = None
        self._marks: int | None = None

    def tick(self) -> None:
        """One more job has run."""
        with self._lock:
            now = time.time()
            jobs, first, _ = self._count
            self._count = Count(jobs + 1, first or now, now)
            if self._map is None:
                self._map = _mapped(self._home / "count")
            _LAYOUT.pack_into(self._map, 0, *self._count)

    def late(self, due: float) -> None:
        """A job that was due at `due` has started."""
        delay = time.time() - due
        with self._lock, open(self._home / "late", "a") as lines:
            lines.write(f"{delay:.6f}\n")

    def mark(self, number: int) -> None:
        """The step of this number runs."""
        if self._marks is None:
            self._marks = os.open(self._home / "marks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(self._marks, b"%.6f %d\n" % (time.time(), number))

    def end(self, value: int) -> None:
        """A flow has ended with this value."""
        with self._lock, open(self._home / "ended", "a") as lines:
            lines.write(f"{time.time():.6f} {value}\n")


def read_count(home: Path) -> Count:
    """The count of whichever process writes in `home`."""
    try:
        return Count(*_LAYOUT.unpack((home / "count").read_bytes()))
    except (FileNotFoundError, struct.error):  # not there yet, or not yet of full length
        return Count()


def read_late(home: Path) -> list[float]:
    """Every delay noted in `home`, in seconds."""
    try:
        return [float(line) for line in (home / "late").read_text().split()]
    except FileNotFoundError:
        return []


def read_ended(home: Path) -> list[tuple[float, int]]:
    """When each flow noted in `home` ended (Unix time), and with which value."""
    return _pairs(home / "ended")


def read_marks(home: Path) -> list[tuple[float, int]]:
    """When each step noted in `home` ran (Unix time), and its number."""
    return _pairs(home / "marks")


def _pairs(path: Path) -> list[tuple[float, int]]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(float(at), int(value)) for at, value in (line.split() for line in lines)]


def instants(jobs: int, gap: float) -> Iterator[float]:
    """Seconds from the start at which to enqueue: `gap` apart on average, no two gaps alike, the same in every run."""
    at, dice = 0.0, random.Random(jobs)
    for _ in range(jobs):
        yield at
        at += gap * dice.uniform(0.5, 1.5)


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    ranked = sorted(values)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]


def answer(**figures: float) -> None:
    """The one line a program leaves for the harness."""
    print(json.dumps(figures), flush=True)


def _mapped(path: Path) -> mmap.mmap:
    path.write_bytes(bytes(_LAYOUT.size))
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), _LAYOUT.size)
