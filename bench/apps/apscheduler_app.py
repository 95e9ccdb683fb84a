"""APScheduler's side of the schedules: its background scheduler on a store in SQLite, jobs in its threads."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from meter import Meter

HOME = Path(os.environ["BENCH_HOME"])

scheduler = BackgroundScheduler(timezone=UTC, jobstores={"default": SQLAlchemyJobStore(f"sqlite:///{HOME}/aps.db")})
started = Meter(HOME)


def stamp(first: float, span: float) -> None:
    """It is not told its tick: the newest one on its grid is."""
    started.late(first + (time.time() - first) // span * span)


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
        case other:
            sys.exit(f"apscheduler_app does not know {other}")
