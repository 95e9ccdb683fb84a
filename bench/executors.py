"""Coroutines, threads and child processes beside each other: no-op jobs through one worker each, in one run.

BENCH_STORE=redis://127.0.0.1/0 BENCH_CHILDREN=2 python -m bench.executors --jobs 20000 --slots 50 [--only process]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from mainspring import Mainspring
from mainspring.cli.event_loop import tune_garbage_collector

from .apps.meter import Meter, read_count

STORE = os.environ.setdefault("BENCH_STORE", "memory://")
HOME = Path(os.environ.setdefault("BENCH_HOME", tempfile.mkdtemp(prefix="mainspring-bench-")))
# Jobs before the clock starts: children are started, connections open.
WARM_UP_JOBS = 200
PAUSE_SECONDS = 0.01

app = Mainspring(STORE, durability="full", children=int(os.environ.setdefault("BENCH_CHILDREN", "2")))
(HOME / str(os.getpid())).mkdir(exist_ok=True)
meter = Meter(HOME / str(os.getpid()))


@app.task(queue="async")
async def coroutine() -> None:
    meter.tick()


@app.task(queue="thread")
def thread() -> None:
    meter.tick()


@app.task(queue="process", executor="process")
def process() -> None:
    meter.tick()


TASKS: dict[str, Any] = {"async": coroutine, "thread": thread, "process": process}


TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> tuple[float, float]:
    """CPU seconds of this process and of its children."""
    spent = {place.name: 0.0 for place in HOME.iterdir()}
    for pid in spent:
        if not Path(f"/proc/{pid}").exists():
            continue  # a child that was replaced
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        spent[pid] = (int(user) + int(system)) / TICKS
    own = spent.pop(str(os.getpid()))
    return own, sum(spent.values())


async def until(done: Callable[[], bool]) -> None:
    while not done():
        await asyncio.sleep(PAUSE_SECONDS)


def ran() -> int:
    """Jobs run so far, by this process and its children."""
    return sum(read_count(place).jobs for place in HOME.iterdir())


async def measure(kind: str, jobs: int, slots: int) -> None:
    """Prints jobs per second from the first claim until the store shows all as completed."""
    task, queue, before, stored = TASKS[kind], kind, ran(), (await app.stats()).completed
    await app.enqueue_many([task.job() for _ in range(WARM_UP_JOBS)])
    async with app.worker(queues=[queue], concurrency=slots):
        await until(lambda: ran() >= before + WARM_UP_JOBS)
        await app.queues.pause(queue)
        for first in range(0, jobs, 5_000):
            await app.enqueue_many([task.job() for _ in range(min(5_000, jobs - first))])
        start, spent = time.perf_counter(), cpu_seconds()
        await app.queues.resume(queue)
        await until(lambda: ran() >= before + WARM_UP_JOBS + jobs)
        while (await app.stats()).completed < stored + WARM_UP_JOBS + jobs:
            await asyncio.sleep(PAUSE_SECONDS)
        seconds = time.perf_counter() - start
        own, children = (1e6 * (now - then) / jobs for now, then in zip(cpu_seconds(), spent, strict=True))
    print(
        f"{kind:8} {slots:4} slots {jobs / seconds:10,.0f} jobs/s; CPU a job: {own:.0f} µs, children {children:.0f} µs"
    )


async def main(options: argparse.Namespace) -> None:
    async with app:
        for kind in TASKS:
            if not options.only or kind in options.only:
                await measure(kind, options.jobs, options.slots)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--slots", type=int, default=50)
    parser.add_argument("--only", nargs="*", choices=list(TASKS))
    tune_garbage_collector()
    uvloop.run(main(parser.parse_args()))
