"""What a claim costs: the store alone, with as much in its file as the caller asks for."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from meter import answer, percentile

from mainspring.ids import new_id
from mainspring.job import Filter, NewJob, WorkerInfo
from mainspring.outcome import Done, decide
from mainspring.store import Store
from mainspring.stores import open_store

URL = f"sqlite:///{os.environ['BENCH_HOME']}/claim.db"
LIMIT, WARM_UP, CHUNK = 100, 5, 10_000


@asynccontextmanager
async def opened() -> AsyncIterator[Store]:
    store = open_store(URL)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, jobs: int, delay: timedelta | None = None) -> None:
    for start in range(0, jobs, CHUNK):
        now = datetime.now(UTC)
        due = None if delay is None else now + delay
        batch = range(min(CHUNK, jobs - start))
        await store.enqueue([NewJob(id=new_id(now), task="noop", payload="{}", run_at=due) for _ in batch], now=now)


async def build(pending: int, future: int) -> None:
    async with opened() as store:
        if not await store.jobs(Filter(), now=datetime.now(UTC), limit=1):
            await put(store, pending)
            await put(store, future, timedelta(days=1))


async def claims(calls: int) -> list[float]:
    """Milliseconds of each call. Its jobs are finished and replaced, so that all calls meet the same file."""
    taken: list[float] = []
    async with opened() as store:
        now = datetime.now(UTC)
        info = WorkerInfo(
            id="bench", host="bench", pid=os.getpid(), queues=None, tasks=("noop",), concurrency=LIMIT,
            started_at=now,
        )  # fmt: skip
        await store.beat(info, until=now + timedelta(hours=1), now=now)
        for _ in range(WARM_UP + calls):
            now = datetime.now(UTC)
            start = time.perf_counter()
            claim = await store.claim(None, worker="bench", tasks=("noop",), limit=LIMIT, now=now)
            taken.append(1000 * (time.perf_counter() - start))
            if len(claim.jobs) != LIMIT:
                sys.exit(f"a claim gave {len(claim.jobs)} jobs instead of {LIMIT}")
            await store.finish([decide(job, Done(), now=now) for job in claim.jobs])
            await put(store, LIMIT)
    return taken[WARM_UP:]


async def measure(pending: int, future: int, calls: int) -> None:
    await build(pending, future)
    taken = await claims(calls)
    answer(p50=percentile(taken, 0.50), p99=percentile(taken, 0.99))


def main() -> None:
    pending, future, calls = map(int, sys.argv[1:])
    asyncio.run(measure(pending, future, calls))
