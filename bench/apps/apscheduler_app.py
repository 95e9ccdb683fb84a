"""APScheduler's side of the schedules: its background scheduler on SQLite or in memory, jobs in its threads."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from math import nan
from pathlib import Path

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from meter import Meter, answer, percentile

HOME = Path(os.environ["BENCH_HOME"])

# Nothing in memory outlives the process.
STORES = {"memory": MemoryJobStore, "sqlite": lambda: SQLAlchemyJobStore(f"sqlite:///{HOME}/aps.db")}

jobstore = STORES[os.environ.get("BENCH_JOBSTORE", "sqlite")]()
scheduler = BackgroundScheduler(timezone=UTC, jobstores={"default": jobstore})
started = Meter(HOME)
late: list[tuple[float, float]] = []
"""Of each job its tick and how many milliseconds later it started, for those who answer by themselves."""


def stamp(first: float, span: float) -> None:
    """It is not told its tick: the newest one on its grid is."""
    started.late(first + (time.time() - first) // span * span)


def note(first: float, span: float) -> None:
    now = time.time()
    tick = first + (now - first) // span * span
    late.append((tick, 1000 * (now - tick)))


def herd(schedules: int, lead: float) -> None:
    """All of them tick at the same instant, `lead` seconds after the first was made."""
    first = time.time() + lead
    add(schedules, first, 3600.0)
    while len(late) < schedules:
        time.sleep(0.002)
    answer(started=max(delay for _, delay in late), settled=nan)
    scheduler.shutdown()


def pace(schedules: int, seconds: int) -> None:
    """Each of them ticks every second, all at the same instant; the first second is a warm-up."""
    first = float(int(time.time()) + 3)
    add(schedules, first, 1.0)
    time.sleep(first + seconds + 0.9 - time.time())
    found = [delay for tick, delay in late if first + 1 <= tick < first + seconds]
    answer(p50=percentile(found, 0.50), p99=percentile(found, 0.99), largest=max(found))
    scheduler.shutdown()


def add(schedules: int, first: float, span: float) -> None:
    scheduler.start(paused=True)
    at = datetime.fromtimestamp(first, UTC)
    for _ in range(schedules):
        scheduler.add_job(
            note, "interval", seconds=span, start_date=at, args=(first, span), misfire_grace_time=None, max_instances=3
        )
    if time.time() >= first:
        sys.exit(f"{schedules} schedules were not made in time")
    scheduler.resume()


def run(schedules: int, span: float, lead: float, spread: float) -> None:
    first = datetime.now(UTC) + timedelta(seconds=lead)
    scheduler.start(paused=True)
    for n in range(schedules):
        at = first + timedelta(seconds=spread * n / schedules)
        scheduler.add_job(
            stamp, "interval", seconds=span, start_date=at, args=(at.timestamp(), span), misfire_grace_time=None
        )
    if datetime.now(UTC) >= first:
        sys.exit(f"{schedules} schedules were not made in {lead:g} s")
    scheduler.resume()
    while True:
        time.sleep(1)


def main() -> None:
    match sys.argv[1:]:
        case ["ticks", schedules]:
            run(int(schedules), 1.0, lead=1.0, spread=1.0)
        case ["burst", schedules, lead]:
            run(int(schedules), 3600.0, lead=float(lead), spread=0.0)
        case ["herd", schedules, lead]:
            herd(int(schedules), float(lead))
        case ["pace", schedules, seconds]:
            pace(int(schedules), int(seconds))
        case other:
            sys.exit(f"apscheduler_app does not know {other}")
