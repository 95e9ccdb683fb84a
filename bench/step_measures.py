"""Measurements of durable steps: a worker that has run one job, then many steps, or a kill in the middle."""

from __future__ import annotations

import time
from contextlib import suppress
from math import nan

from .apps.meter import read_ended, read_marks
from .flow_measures import Figures, FlowEngine
from .harness import Lab
from .processes import Failed, wait_for

WARM_STEPS = 10


def walks(lab: Lab, *, engine: FlowEngine, jobs: int, steps: int) -> Figures:
    """Steps per second from the first step to the last end."""
    with engine.fresh(lab) as home, home.worker("worker") as (place, child):
        home.ask("walks", 1, WARM_STEPS)
        wait_for(lambda: len(read_ended(place)) == 1, child, timeout=120, what="the first job")
        home.ask("walks", jobs, steps)
        wait_for(lambda: len(read_ended(place)) == 1 + jobs, child, timeout=300, what=f"{jobs:,} × {steps:,} steps")
        marks = [at for at, _ in read_marks(place)[WARM_STEPS:]]
        ends = read_ended(place)[1:]
        if {value for _, value in ends} != {steps} or len(marks) != jobs * steps:
            raise Failed(f"{len(marks):,} steps were run, of {jobs:,} × {steps:,}")
        return {"rate": jobs * steps / (max(at for at, _ in ends) - min(marks))}


def killed(lab: Lab, *, engine: FlowEngine, steps: int, patience: float) -> Figures:
    """A worker is killed when half of the steps of a job have run, and another one starts at once."""
    with engine.fresh(lab) as home:
        with home.worker("killed") as (first, child):
            home.ask("walks", 1, steps)
            wait_for(lambda: len(read_marks(first)) >= steps // 2, child, timeout=120, what="half of the steps")
            child.kill()
            killed = time.time()
        with home.worker("second") as (second, child), suppress(Failed):
            wait_for(lambda: bool(read_ended(second)), child, timeout=patience, what="the end of the job")
        before, after = ([n for _, n in read_marks(place)] for place in (first, second))
        resumed = [at for at, n in read_marks(second) if n not in before]
        right = [value for _, value in read_ended(second)] == [steps]
        return {
            "resumed": resumed[0] - killed if resumed else nan,
            "again": len(before) + len(after) - len({*before, *after}),
            "wrong": 0 if right else 1,
        }
