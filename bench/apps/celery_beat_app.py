"""Celery beat's side of the schedules: a beat process, and a worker of one process, on Redis."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import peer
from celery import Celery
from celery.apps.beat import Beat
from celery.schedules import BaseSchedule, schedstate
from meter import Meter

HOME = Path(os.environ["BENCH_HOME"])
meter = Meter(HOME)
app = Celery("bench", broker=peer.DSN)
app.conf.update(
    task_ignore_result=True, broker_connection_retry_on_startup=True, worker_prefetch_multiplier=64, timezone="UTC"
)


class Grid(BaseSchedule):
    """Instants on a grid: its own interval counts from whenever beat was started."""

    def __init__(self, first: float, span: float) -> None:
        super().__init__()
        self.first, self.span = first, span
        self.passed = first - span

    def is_due(self, last_run_at: datetime) -> schedstate:
        now = time.time()
        tick = self.first + (now - self.first) // self.span * self.span
        due = tick > self.passed and now >= self.first
        if due:
            self.passed = tick
        return schedstate(due, max(0.0, max(tick, self.first - self.span) + self.span - now))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Grid) and (self.first, self.span) == (other.first, other.span)

    __hash__ = None

    def __reduce__(self) -> Any:
        return Grid, (self.first, self.span)


@app.task(name="stamp")
def stamp(first: float, span: float) -> None:
    """It is not told its tick: the newest one on its grid is."""
    meter.late(first + (time.time() - first) // span * span)


def beat(schedules: int, first: float, span: float) -> None:
    entries = {
        f"s-{n}": {"task": "stamp", "schedule": Grid(first, span), "args": (first, span)} for n in range(schedules)
    }
    app.conf.beat_schedule = entries
    Beat(app=app, schedule=str(HOME / "beat"), max_interval=0.05, loglevel="WARNING", quiet=True).run()


def work() -> None:
    alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.worker_main(["worker", "-P", "solo", *alone, "-l", "WARNING", "-n", f"worker-{os.getpid()}@bench"])


def main() -> None:
    match sys.argv[1:]:
        case ["beat", schedules, first, span]:
            beat(int(schedules), float(first), float(span))
        case ["worker"]:
            work()
        case other:
            sys.exit(f"celery_beat_app does not know {other}")
