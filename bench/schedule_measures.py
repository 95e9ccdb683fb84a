"""Measurements of many schedules: on each store, and of those who can follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path

from .apps.meter import percentile, read_late
from .harness import Lab
from .processes import APSCHEDULER, CELERY_BEAT, MAINSPRING_MANY, wait_for

Figures = dict[str, float]
TIMEOUT_SECONDS = 400.0
# Seconds until beat and its worker are surely at work.
BEAT_LEAD_SECONDS = 6.0


@contextmanager
def _empty(lab: Lab, store: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A home, and where the store is."""
    with lab.fresh() as home:
        yield home, _place(lab, store)


def _place(lab: Lab, store: str) -> dict[str, str]:
    if store == "PostgreSQL":
        lab.postgres.fresh()
        return {"BENCH_STORE": lab.postgres.dsn()}
    if store == "Redis":
        lab.redis.fresh()
        return {"BENCH_STORE": lab.redis.url}
    return {"BENCH_STORE": "memory://"} if store == "memory" else {}


def mainspring(lab: Lab, *, store: str, words: tuple[object, ...]) -> Figures:
    with _empty(lab, store) as (home, env):
        return MAINSPRING_MANY.ask(home, *words, timeout=TIMEOUT_SECONDS, **env)


def apscheduler(lab: Lab, *, jobstore: str, words: tuple[object, ...]) -> Figures:
    with lab.fresh() as home:
        return APSCHEDULER.ask(home, *words, timeout=TIMEOUT_SECONDS, BENCH_JOBSTORE=jobstore)


def beat_herd(lab: Lab, *, schedules: int) -> Figures:
    late = _beat(lab, schedules, 3600.0, lambda found: len(found) >= schedules)
    return {"started": 1000 * max(late), "settled": nan}


def beat_pace(lab: Lab, *, schedules: int, seconds: int) -> Figures:
    wanted = schedules * seconds
    late = [1000 * delay for delay in _beat(lab, schedules, 1.0, lambda found: len(found) >= wanted)]
    late = late[schedules:wanted]  # the first second is a warm-up
    return {"p50": percentile(late, 0.50), "p99": percentile(late, 0.99), "largest": max(late)}


def _beat(lab: Lab, schedules: int, span: float, done: Callable[[list[float]], bool]) -> list[float]:
    with _empty(lab, "Redis") as (home, env), CELERY_BEAT.running(home, "worker", **env) as worker:
        first = float(int(time.time() + BEAT_LEAD_SECONDS + schedules / 2000))
        with CELERY_BEAT.running(home, "beat", schedules, first, span, **env) as beat:
            wait_for(lambda: done(read_late(home)), worker, beat, timeout=120, what="jobs of beat started")
        return read_late(home)
