"""What unique and idempotency keys cost: python -m bench.unique_keys --store URL [--jobs 20000].

One process fills the store in batches and drains it, in turn with jobs without keys, with different unique keys and
with different idempotency keys. It prints the jobs/s of both, the medians of the rounds, and their ratios to those
without keys. The store should be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from typing import Any

import uvloop

from mainspring import Mainspring
from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.records.job import NewJob

# Jobs of one call of enqueue_many, and seconds until a drain has failed.
BATCH, BOUND_SECONDS = 1_000, 120.0
VERBS, KINDS = ("enqueue", "drain"), ("plain", "unique", "idempotent")


class Meter:
    """The first and the last start of a job, and their number."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.jobs, self.first, self.last = 0, 0.0, 0.0

    def tick(self) -> None:
        self.last = time.perf_counter()
        if not self.jobs:
            self.first = self.last
        self.jobs += 1


meter = Meter()


async def noop() -> None:
    meter.tick()


def made(task: Any, kind: str, name: str) -> NewJob:
    """A job with a key of that kind."""
    if kind == "unique":
        task = task.using(unique_key=name)
    elif kind == "idempotent":
        task = task.using(idempotency_key=name)
    job: NewJob = task.job()
    return job


async def fill(app: Mainspring, task: Any, kind: str, run: int, jobs: int) -> float:
    """Jobs/s of calls of enqueue_many, building the jobs included."""
    start = time.perf_counter()
    for at in range(0, jobs, BATCH):
        last = min(at + BATCH, jobs)
        await app.enqueue_many([made(task, kind, f"{kind}-{run}-{n}") for n in range(at, last)])
    return jobs / (time.perf_counter() - start)


async def drain(app: Mainspring, jobs: int, slots: int) -> float:
    """Jobs/s of a worker that finds all of them waiting."""
    before, end = (await app.stats()).completed, time.monotonic() + BOUND_SECONDS
    meter.reset()
    async with app.worker(concurrency=slots):
        while meter.jobs < jobs and time.monotonic() < end:
            await asyncio.sleep(0.02)
    done = (await app.stats()).completed - before
    if done != jobs or meter.jobs != jobs:
        sys.exit(f"{done} of {jobs} jobs are completed, {meter.jobs} were started")
    return (jobs - 1) / (meter.last - meter.first)


async def measure(options: argparse.Namespace) -> dict[tuple[str, str], list[float]]:
    """The rates of each round by verb and kind."""
    app = Mainspring(options.store)
    task = app.task(noop)
    rates: dict[tuple[str, str], list[float]] = {(verb, kind): [] for verb in VERBS for kind in KINDS}
    async with app:
        for run in range(options.runs):
            for kind in KINDS:
                rates["enqueue", kind].append(await fill(app, task, kind, run, options.jobs))
                rates["drain", kind].append(await drain(app, options.jobs, options.slots))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.unique_keys", description=__doc__)
    add = parser.add_argument
    add("--store", required=True, metavar="URL")
    add("--jobs", type=int, default=20_000)
    add("--slots", type=int, default=500)
    add("--runs", type=int, default=3)
    tune_garbage_collector()
    rates = uvloop.run(measure(parser.parse_args()))
    for verb in VERBS:
        plain = statistics.median(rates[verb, "plain"])
        for kind in KINDS:
            found = rates[verb, kind]
            rate = statistics.median(found)
            spread = f"[{min(found):,.0f} - {max(found):,.0f}]"
            print(f"{verb:8} {kind:11}{rate:10,.0f} jobs/s  {spread:20}  {rate / plain:.2f}")


if __name__ == "__main__":
    main()
