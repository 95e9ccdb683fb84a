"""Very many schedules in one store: a worker's look, the pages, the outlook, and herds that are due at one instant."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import uvloop
from mainspring_many import SET, app, late, row, until, write
from meter import answer, percentile
from msgspec.structs import replace

from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.store import Store

WARM_UP_CALLS, LEAD_SECONDS, BOUND_SECONDS = 5, 3.0, 60.0
HERDS = (1_000, 10_000)


async def fill(store: Store, total: int) -> None:
    """Schedules of a day each, due from two hours on."""
    if await store.schedules(limit=1):
        return
    now = datetime.now(UTC)
    for first in range(0, total, 10 * SET):
        some = range(first, min(total, first + 10 * SET))
        rows = (row(f"q-{n:06}", now, now + timedelta(hours=2, seconds=n % 79_200), 86_400) for n in some)
        await write(store, rows, now)


async def looks(store: Store, calls: int) -> dict[str, float]:
    from mainspring.api.routes.schedule_overview import scheduler_outlook

    found: dict[str, float] = {}
    await app.schedules.index.snapshot(wait=BOUND_SECONDS)
    pages: dict[str, Callable[[], Awaitable[object]]] = {
        "look while none is due": lambda: store.due(now=datetime.now(UTC), limit=SET),
        "page": lambda: app.schedules.page(limit=50),
        "page of a search": lambda: app.schedules.page(limit=50, q="099"),
        "page of paused schedules": lambda: app.schedules.page(limit=50, status="paused"),
        "outlook": lambda: scheduler_outlook.fn(app),
    }
    for name, look in pages.items():
        taken, spent = list[float](), 0.0
        for n in range(WARM_UP_CALLS + calls):
            start, cpu = time.perf_counter(), time.process_time()
            await look()
            if n >= WARM_UP_CALLS:
                taken.append(1000 * (time.perf_counter() - start))
                spent += 1000 * (time.process_time() - cpu)
        found |= {f"{name}: p50": percentile(taken, 0.50), f"{name}: p99": percentile(taken, 0.99)}
        found[f"{name}: client CPU"] = spent / calls
    return found


async def herd(store: Store, size: int) -> float:
    """Milliseconds from the instant until the last job has started; one worker with default settings."""
    begun = datetime.now(UTC)
    rows = [row(f"herd-{size}-{n:06}", begun, begun + timedelta(hours=20), 86_400) for n in range(size)]
    await write(store, rows, begun)
    begun = datetime.now(UTC)
    at = begun + timedelta(seconds=LEAD_SECONDS + size / 2000)
    await write(store, (replace(row(one.name, begun, at, 86_400), revision=one.revision + 1) for one in rows), begun)
    if datetime.now(UTC) > at - timedelta(seconds=LEAD_SECONDS / 2):
        sys.exit("the schedules were not made in time")
    late.clear()
    async with app.worker():
        await until(at.timestamp())
        end = time.time() + BOUND_SECONDS
        while len(late) < size and time.time() < end:
            await asyncio.sleep(0.002)
    if len(late) != size:
        sys.exit(f"{len(late)} of {size} jobs started")
    return max(delay for _, delay in late)


async def measure(total: int, calls: int) -> None:
    async with app:
        store = await app.connect()
        await fill(store, total)
        found = await looks(store, calls)
        for size in HERDS:
            found[f"herd of {size:,}: started"] = await herd(store, size)
    answer(**found)


def main() -> None:
    tune_garbage_collector()
    uvloop.run(measure(int(sys.argv[1]), int(sys.argv[2])))
