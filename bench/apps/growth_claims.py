"""Claims and drains beside millions of jobs, in turn with a store that has few jobs in the same queues and tasks."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from growth_seed import QUEUES, TASKS, names
from meter import answer, percentile

from mainspring import Mainspring
from mainspring.ids import new_id
from mainspring.records.job import NewJob
from mainspring.records.outcome import Done, decide
from mainspring.records.worker import WorkerInfo
from mainspring.store import Store
from mainspring.stores import open_store

URLS = {"filled": os.environ["BENCH_STORE"], "few": os.environ["BENCH_FEW"]}
LIMITS, WARM_UP, DRAINED_JOBS, DRAINS = (500, 1), 10, 20_000, 3
QUEUE, TASK, WORKER = "growth-drain", "growth-noop", "growth-bench"
CALL_JOBS, DRAIN_SECONDS = 1_000, 120.0
ALL_QUEUES, ALL_TASKS = [f"queue-{n:02}" for n in range(QUEUES)], [f"task-{n:02}" for n in range(TASKS)]


def new_jobs(count: int, seed: int) -> list[NewJob]:
    now, made = datetime.now(UTC), []
    for n in range(seed, seed + count):
        queue, task = names(n)
        made.append(NewJob(id=new_id(now), task=task, queue=queue, payload='{"customer": 1}'))
    return made


async def beat(store: Store) -> None:
    now = datetime.now(UTC)
    info = WorkerInfo(id=WORKER, host="bench", pid=1, queues=None, tasks=(), concurrency=500, started_at=now)
    await store.beat(info, until=now + timedelta(hours=1), now=now)


async def claims(calls: int) -> dict[str, float]:
    """p50 and p99 in ms of claims of all queues and tasks. As many jobs are inserted before each as it will take, and
    those that it took are completed, so that all calls meet the same number."""
    stores = {name: open_store(url) for name, url in URLS.items()}
    taken: dict[tuple[str, int], list[float]] = {(name, limit): [] for name in stores for limit in LIMITS}
    for store in stores.values():
        await store.open()
        await beat(store)
    for limit in LIMITS:
        for call in range(WARM_UP + calls):
            for name, store in stores.items():
                spent = await claim_once(store, limit, seed=1_000_000 + call * limit)
                if call >= WARM_UP:
                    taken[name, limit].append(spent)
    for store in stores.values():
        await store.close()
    return {
        f"claim of {limit}, {name}: {kind}": percentile(taken[name, limit], share)
        for limit in LIMITS
        for name in stores
        for kind, share in (("p50", 0.50), ("p99", 0.99))
    }


async def claim_once(store: Store, limit: int, seed: int) -> float:
    await store.enqueue(new_jobs(limit, seed), now=datetime.now(UTC))
    now, start = datetime.now(UTC), time.perf_counter()
    claim = await store.claim(ALL_QUEUES, worker=WORKER, tasks=ALL_TASKS, limit=limit, now=now)
    spent = 1000 * (time.perf_counter() - start)
    if len(claim.jobs) != limit:
        sys.exit(f"a claim gave {len(claim.jobs)} jobs instead of {limit}")
    await store.finish([decide(job, Done(), now=now) for job in claim.jobs])
    return spent


async def drains(rounds: int) -> dict[str, float]:
    """Jobs a second of a worker that drains one queue, the median of some rounds in turn."""
    rates: dict[str, list[float]] = {name: [] for name in URLS}
    for _ in range(rounds):
        for name, url in URLS.items():
            rates[name].append(await drain_once(url))
    found = {f"drain, {name}: jobs/s": sorted(rates[name])[rounds // 2] for name in URLS}
    found |= {f"drain, {name}: {kind.__name__}": kind(rates[name]) for name in URLS for kind in (min, max)}
    return found


async def drain_once(url: str) -> float:
    app = Mainspring(url, durability="full")
    done, finished = 0, asyncio.Event()

    async def noop() -> None:
        nonlocal done
        done += 1
        if done == DRAINED_JOBS:
            finished.set()

    app.task(name=TASK)(noop)
    async with app:
        store = await app.connect()
        for _ in range(0, DRAINED_JOBS, CALL_JOBS):
            now = datetime.now(UTC)
            some = [NewJob(id=new_id(now), task=TASK, queue=QUEUE, payload="{}") for _ in range(CALL_JOBS)]
            await store.enqueue(some, now=now)
        start = time.perf_counter()
        async with app.worker(queues=[QUEUE]):
            await asyncio.wait_for(finished.wait(), DRAIN_SECONDS)
        return DRAINED_JOBS / (time.perf_counter() - start)


def main() -> None:
    what: dict[str, Callable[[int], Any]] = {"claims": claims, "drains": drains}
    answer(**asyncio.run(what[sys.argv[1]](int(sys.argv[2]))))
