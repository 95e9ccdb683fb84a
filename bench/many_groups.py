"""What jobs spread over many queues or tasks cost a worker: python -m bench.many_groups --store URL [--queues 1000].

One process fills the store and drains it, in turn with one queue and task and with many. It prints jobs/s between the
first and the last start of a job, the median of the rounds, and the ratio of the two. The store should be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from mainspring import Mainspring
from mainspring.cli.event_loop import tune_garbage_collector

# Jobs of one call of enqueue_many, and seconds until a drain has failed.
BATCH, BOUND_SECONDS = 1_000, 120.0
Kinds = Sequence[tuple[Any, str]]
"""A task and a queue, for each kind of job."""


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


async def fill(app: Mainspring, kinds: Kinds, jobs: int) -> None:
    made = [task.using(queue=queue) for task, queue in kinds]
    for start in range(0, jobs, BATCH):
        await app.enqueue_many([made[n % len(made)].job() for n in range(start, min(start + BATCH, jobs))])


async def drain(app: Mainspring, kinds: Kinds, jobs: int, slots: int) -> float:
    """Jobs/s of a worker that finds all of them waiting."""
    before = (await app.stats()).completed
    await fill(app, kinds, jobs)
    meter.reset()
    end = time.monotonic() + BOUND_SECONDS
    async with app.worker(concurrency=slots):
        while meter.jobs < jobs and time.monotonic() < end:
            await asyncio.sleep(0.02)
    done = (await app.stats()).completed - before
    if done != jobs or meter.jobs != jobs:
        sys.exit(f"{done} of {jobs} jobs are completed, {meter.jobs} were started")
    return (jobs - 1) / (meter.last - meter.first)


async def compare(options: argparse.Namespace) -> None:
    app = Mainspring(options.store)
    tasks = [app.task(name=f"noop-{n:05}")(noop) for n in range(options.tasks)]
    few = [(tasks[0], "one")]
    many = [(tasks[n % len(tasks)], f"queue-{n % options.queues:05}") for n in range(max(options.queues, len(tasks)))]
    rates: dict[str, list[float]] = {"one": [], "many": []}
    async with app:
        for _ in range(options.runs):
            rates["one"].append(await drain(app, few, options.jobs, options.slots))
            rates["many"].append(await drain(app, many, options.jobs, options.slots))
    for name, found in rates.items():
        print(f"{name:5}{statistics.median(found):10,.0f} jobs/s  [{min(found):,.0f} - {max(found):,.0f}]")
    print(f"ratio{statistics.median(rates['many']) / statistics.median(rates['one']):10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.many_groups", description=__doc__)
    add = parser.add_argument
    add("--store", required=True, metavar="URL")
    add("--queues", type=int, default=1)
    add("--tasks", type=int, default=1)
    add("--jobs", type=int, default=10_000)
    add("--slots", type=int, default=500)
    add("--runs", type=int, default=3)
    tune_garbage_collector()
    uvloop.run(compare(parser.parse_args()))


if __name__ == "__main__":
    main()
