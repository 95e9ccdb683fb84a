"""Mainspring's side of every scenario: an app, its worker and its producers."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from meter import Meter, answer, instants, read_count

from mainspring import Mainspring
from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.records.worker import WorkerInfo
from mainspring.stores import open_store

HOME = Path(os.environ["BENCH_HOME"])
BATCH = 5_000

# Over how many queues `fill` spreads its jobs.
QUEUES = int(os.environ.get("BENCH_QUEUES", "1"))
# The text that each job of `fill` carries, where the size of what is stored counts.
PAYLOAD = os.environ.get("BENCH_PAYLOAD")
STORE = os.environ.get("BENCH_STORE", f"sqlite:///{HOME}/mainspring.db")

app = Mainspring(STORE, durability="full")
meter = Meter(HOME)


@app.task
async def noop() -> None:
    meter.tick()


@app.task
async def hold(text: str) -> None:
    meter.tick()


@app.task
async def stamp(due: float) -> None:
    meter.late(due)


async def setup() -> None:
    """Makes the tables."""
    async with app:
        answer()


async def sample() -> None:
    """Leaves one job completed and one pending."""
    async with app:
        await noop.enqueue()
        await app.drain()
        await noop.enqueue()
        answer()


async def timed(slots: int) -> None:
    """A worker that notes how long each of its claims took, in milliseconds, when it stops."""
    store, taken = await app.connect(), []
    claim = store.claim

    async def timed_claim(*args: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return await claim(*args, **named)
        finally:
            taken.append(1000 * (time.perf_counter() - start))

    setattr(store, "claim", timed_claim)  # noqa: B010, the worker's own claims, from outside
    await app.worker(concurrency=slots).run()
    (HOME / "claims").write_text("\n".join(map(str, taken)))


async def put(jobs: int, batch: int = BATCH) -> float:
    """Seconds it took to enqueue them, building included."""
    kinds = [noop] if QUEUES == 1 else [noop.using(queue=f"queue-{n}") for n in range(QUEUES)]
    start = time.perf_counter()
    for first in range(0, jobs, batch):
        share = range(min(batch, jobs - first))
        plain = (kinds[n % QUEUES].job() for n in share)
        await app.enqueue_many(plain if PAYLOAD is None else (hold.job(PAYLOAD) for _ in share))
    return time.perf_counter() - start


async def fill(jobs: int, batch: int = BATCH) -> None:
    async with app:
        answer(jobs=jobs, seconds=await put(jobs, batch))


async def single(jobs: int, callers: int) -> None:
    """Each caller enqueues its share one by one, awaiting each."""

    async def call(share: int) -> None:
        for _ in range(share):
            await noop.enqueue()

    async with app:
        await call(1)
        start = time.perf_counter()
        await asyncio.gather(*(call(jobs // callers) for _ in range(callers)))
        answer(jobs=jobs // callers * callers, seconds=time.perf_counter() - start)


async def paced(jobs: int, gap: float) -> None:
    """One job every `gap` seconds or so, each carrying the instant of its enqueue."""
    async with app:
        start = time.perf_counter()
        for at in instants(jobs, gap):
            await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
            await stamp.enqueue(time.time())
    answer(jobs=jobs)


async def delayed(jobs: int, least: float, most: float) -> None:
    async with app:
        for number in range(jobs):
            due = datetime.now(UTC) + timedelta(seconds=least + (most - least) * number / jobs)
            await stamp.using(run_at=due).enqueue(due.timestamp())
    answer(jobs=jobs)


async def memory(jobs: int) -> None:
    """Enqueues and drains in this process: run with BENCH_STORE=memory://."""
    async with app:
        await put(jobs)
        start = time.perf_counter()
        await app.drain()
        seconds = time.perf_counter() - start
        answer(jobs=(await app.stats()).completed, seconds=seconds)


async def confirm(jobs: int) -> None:
    """When the store shows this many completed. Asks it only after the meters of its workers do."""
    async with app:
        while sum(read_count(place).jobs for place in (HOME, *HOME.glob("worker-*"))) < jobs:
            await asyncio.sleep(0.005)
        while (await app.stats()).completed < jobs:
            await asyncio.sleep(0.005)
        answer(at=time.time())


async def beats(number: int) -> None:
    """So many beats of a worker that does nothing else, as it sends them."""
    store = open_store(STORE)
    await store.open()
    while store.listening != "ok":  # the beats of one that listens look for what is due as well
        await store.wait("claimable", 0.1)
    now = datetime.now(UTC)
    info = WorkerInfo(
        id="bench", host="bench", pid=os.getpid(), queues=None, tasks=("noop",), concurrency=1, started_at=now
    )
    for _ in range(number):
        await store.time()
        await store.beat(info, until=now + timedelta(minutes=1), now=now)
    await store.close()
    answer()


def main() -> None:
    uvloop.run(_command(sys.argv[1:]))


def _command(words: list[str]) -> Coroutine[object, object, None]:
    match words:
        case ["worker", slots]:
            tune_garbage_collector()  # as `mainspring worker` does
            return app.worker(concurrency=int(slots)).run()
        case ["timed", slots]:
            return timed(int(slots))
        case ["sample"]:
            return sample()
        case ["setup"]:
            return setup()
        case ["fill", jobs]:
            return fill(int(jobs))
        case ["fill", jobs, batch]:
            return fill(int(jobs), int(batch))
        case ["single", jobs, callers]:
            return single(int(jobs), int(callers))
        case ["paced", jobs, gap]:
            return paced(int(jobs), float(gap))
        case ["delayed", jobs, least, most]:
            return delayed(int(jobs), float(least), float(most))
        case ["memory", jobs]:
            return memory(int(jobs))
        case ["beats", number]:
            return beats(int(number))
        case ["confirm", jobs]:
            return confirm(int(jobs))
        case other:
            sys.exit(f"mainspring_app does not know {other}")
