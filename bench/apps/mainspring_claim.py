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
from mainspring.records.job import NewJob
from mainspring.records.outcome import Done, decide
from mainspring.records.query import Filter
from mainspring.records.worker import WorkerInfo
from mainspring.store import Store
from mainspring.stores import open_store

URL = os.environ.get("BENCH_STORE", f"sqlite:///{os.environ['BENCH_HOME']}/claim.db")
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


async def claims(calls: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each claim, and of each finish of what it took. Jobs are replaced: all calls meet the same."""
    claimed: list[float] = []
    finished: list[float] = []
    async with opened() as store:
        now = datetime.now(UTC)
        info = WorkerInfo(
            id="bench", host="bench", pid=os.getpid(), queues=("default",), tasks=("noop",), concurrency=LIMIT,
            started_at=now,
        )  # fmt: skip
        await store.beat(info, until=now + timedelta(hours=1), now=now)
        for _ in range(WARM_UP + calls):
            await put(store, LIMIT)
            now = datetime.now(UTC)
            start = time.perf_counter()
            claim = await store.claim(("default",), worker="bench", tasks=("noop",), limit=LIMIT, now=now)
            claimed.append(1000 * (time.perf_counter() - start))
            if len(claim.jobs) != LIMIT:
                sys.exit(f"a claim gave {len(claim.jobs)} jobs instead of {LIMIT}")
            start = time.perf_counter()
            await store.finish([decide(job, Done(), now=now) for job in claim.jobs])
            finished.append(1000 * (time.perf_counter() - start))
    return claimed[WARM_UP:], finished[WARM_UP:]


async def measure(pending: int, future: int, calls: int) -> None:
    await build(pending, future)
    claimed, finished = await claims(calls)
    ends = {"finish, p50": percentile(finished, 0.50), "finish, p99": percentile(finished, 0.99)}
    answer(p50=percentile(claimed, 0.50), p99=percentile(claimed, 0.99), **ends)


def main() -> None:
    pending, future, calls = map(int, sys.argv[1:])
    asyncio.run(measure(pending, future, calls))
