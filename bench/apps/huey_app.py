"""Huey's side of every scenario: SqliteHuey, results off, and its producers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from huey import SqliteHuey
from meter import Meter, answer, instants

HOME = Path(os.environ["BENCH_HOME"])
# "off" is Huey's fastest; "default" leaves SQLite at synchronous=FULL, which is as safe as our own setting.
FSYNC = {"off": False, "default": None}[os.environ.get("BENCH_FSYNC", "off")]

huey = SqliteHuey("bench", filename=str(HOME / "huey.db"), results=False, fsync=FSYNC)
meter = Meter(HOME)


@huey.task()
def noop() -> None:
    meter.tick()


@huey.task()
def stamp(due: float) -> None:
    meter.late(due)


def fill(jobs: int) -> None:
    start = time.perf_counter()
    for _ in range(jobs):
        noop()
    answer(jobs=jobs, seconds=time.perf_counter() - start)


def paced(jobs: int, gap: float) -> None:
    """One job every `gap` seconds or so, each carrying the instant of its enqueue."""
    start = time.perf_counter()
    for at in instants(jobs, gap):
        time.sleep(max(0.0, start + at - time.perf_counter()))
        stamp(time.time())
    answer(jobs=jobs)


def delayed(jobs: int, least: float, most: float) -> None:
    for number in range(jobs):
        delay = least + (most - least) * number / jobs
        stamp.schedule(args=(time.time() + delay,), delay=delay)
    answer(jobs=jobs)


def main() -> None:
    match sys.argv[1:]:
        case ["fill", jobs]:
            fill(int(jobs))
        case ["paced", jobs, gap]:
            paced(int(jobs), float(gap))
        case ["delayed", jobs, least, most]:
            delayed(int(jobs), float(least), float(most))
        case other:
            sys.exit(f"huey_app does not know {other}")
