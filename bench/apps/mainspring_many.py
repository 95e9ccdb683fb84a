"""Mainspring with many schedules, on any store: one worker process with default settings fires and runs them."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from meter import answer, percentile
from msgspec.structs import replace

from mainspring import Context, Mainspring
from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.schedule.edit import create
from mainspring.schedule.record import Firing, Schedule, Spec
from mainspring.store import Store
from mainspring.trigger import Every

HOME = Path(os.environ["BENCH_HOME"])
STORE = os.environ.get("BENCH_STORE", f"sqlite:///{HOME}/many.db")
# Schedules written in one call, seconds from the last of them to the first tick, and seconds until giving up.
SET, LEAD_SECONDS, BOUND_SECONDS = 500, 2.0, 60.0
WARM_UP_CALLS = 5

app = Mainspring(STORE, durability="full")
late: list[tuple[float, float]] = []
"""Of each job its tick and how many milliseconds later it started."""


@app.task
async def stamp(ctx: Context) -> None:
    assert ctx.scheduled_at is not None
    tick = ctx.scheduled_at.timestamp()
    late.append((tick, 1000 * (time.time() - tick)))


def row(name: str, now: datetime, at: datetime, seconds: int) -> Schedule:
    return create(name, Spec(trigger=Every(seconds=seconds, anchor=at), task="stamp"), owner="user", now=now)


async def write(store: Store, rows: Iterable[Schedule], now: datetime) -> None:
    firings = [Firing(schedule=row) for row in rows]
    for first in range(0, len(firings), SET):
        await store.fire(firings[first : first + SET], now=now)


async def until(at: float) -> None:
    await asyncio.sleep(max(0.0, at - time.time()))


async def herd(schedules: int) -> None:
    """All of them tick at the same instant: until the last of their jobs has started, and until all is settled."""
    store, now = await app.connect(), datetime.now(UTC)
    # Made for an instant that surely is to come, then moved there: how long making them takes differs by the store.
    rows = [row(f"s-{n:06}", now, now + timedelta(hours=1), 7200) for n in range(schedules)]
    await write(store, rows, now)
    begun, at = datetime.now(UTC), datetime.now(UTC) + timedelta(seconds=LEAD_SECONDS + schedules / 2000)
    await write(store, (replace(row(one.name, begun, at, 7200), revision=one.revision + 1) for one in rows), begun)
    if datetime.now(UTC) > at - timedelta(seconds=LEAD_SECONDS / 2):
        sys.exit("the schedules were not made in time")
    async with app.worker():
        await until(at.timestamp())
        end = time.time() + BOUND_SECONDS
        while len(late) < schedules and time.time() < end:
            await asyncio.sleep(0.002)
        while (
            time.time() < end and (await store.overview(now=datetime.now(UTC))).states.get("completed", 0) < schedules
        ):
            await asyncio.sleep(0.005)
        settled = 1000 * (time.time() - at.timestamp())
        open_ones = [one async for one in _all(store) if one.active or one.completed != 1]
    if len(late) != schedules or open_ones:
        sys.exit(f"{len(late)} of {schedules} jobs started, {len(open_ones)} schedules are not settled")
    answer(started=max(delay for _, delay in late), settled=settled)


async def _all(store: Store) -> Any:
    after = None
    while page := await store.schedules(limit=SET, after=after):
        for one in page:
            yield one
        after = page[-1].name


async def pace(schedules: int, seconds: int) -> None:
    """Each of them ticks every second, all at the same instant."""
    store, now = await app.connect(), datetime.now(UTC)
    base = math.ceil(time.time() + LEAD_SECONDS)
    at = datetime.fromtimestamp(base, UTC)
    await write(store, [row(f"s-{n:06}", now, at, 1) for n in range(schedules)], now)
    await _watched(base, schedules, seconds)


async def crowd(total: int, due: int, seconds: int) -> None:
    """So many of very many are due each second; the others in some hours."""
    store, now = await app.connect(), datetime.now(UTC)
    later = now + timedelta(hours=2)
    quiet = total - due * (seconds + 1)
    for first in range(0, quiet, 10 * SET):
        count = min(10 * SET, quiet - first)
        rows = (
            row(f"q-{first + n:06}", now, later + timedelta(seconds=(first + n) % 3600), 86_400) for n in range(count)
        )
        await write(store, rows, now)
    now, base = datetime.now(UTC), math.ceil(time.time() + LEAD_SECONDS + due * seconds / 2000)
    ticks = (base + n // due for n in range(due * (seconds + 1)))
    rows = [row(f"d-{n:06}", now, datetime.fromtimestamp(tick, UTC), 86_400) for n, tick in enumerate(ticks)]
    await write(store, rows, now)
    if time.time() > base - LEAD_SECONDS / 2:
        sys.exit("the schedules were not made in time")
    await _watched(base, due, seconds)


async def _watched(base: float, each: int, seconds: int) -> None:
    """The worker runs meanwhile; the first second is its warm-up."""
    async with app.worker():
        await until(base + seconds + 0.9)
        found = [delay for tick, delay in late if base + 1 <= tick < base + seconds]
        if len(found) < each * (seconds - 1):
            sys.exit(f"{len(found)} of {each * (seconds - 1)} jobs had started")
    answer(p50=percentile(found, 0.50), p99=percentile(found, 0.99), largest=max(found))


async def look(total: int, calls: int) -> None:
    """What looking costs while nothing is due."""
    store, now = await app.connect(), datetime.now(UTC)
    later = now + timedelta(hours=2)
    if not await store.schedules(limit=1):
        for first in range(0, total, 10 * SET):
            count = min(10 * SET, total - first)
            await write(store, (row(f"q-{first + n:06}", now, later, 86_400) for n in range(count)), now)
    taken = []
    for _ in range(WARM_UP_CALLS + calls):
        start = time.perf_counter()
        found = await store.due(now=datetime.now(UTC), limit=SET)
        taken.append(1000 * (time.perf_counter() - start))
        assert not found.schedules
    answer(p50=percentile(taken[WARM_UP_CALLS:], 0.50), p99=percentile(taken[WARM_UP_CALLS:], 0.99))


async def many(total: int) -> None:
    """What very many schedules cost: to make them, to read pages and the index of all, and the load of the next day."""
    from mainspring.worker.scheduler import read_load

    store, now = await app.connect(), datetime.now(UTC)
    later, start, taken = now + timedelta(hours=2), time.perf_counter(), dict[str, float]()
    for first in range(0, total, 10 * SET):
        some = range(first, min(total, first + 10 * SET))
        rows = (row(f"q-{n:06}", now, later + timedelta(seconds=n % 3600), 86_400) for n in some)
        await write(store, rows, now)
    taken["made"] = 1000 * (time.perf_counter() - start)
    looks: dict[str, Callable[[], Awaitable[object]]] = {
        "look": lambda: store.due(now=datetime.now(UTC), limit=SET),
        "page": lambda: app.schedules.page(limit=50),
        "search_unread": lambda: app.schedules.page(limit=50, q="099"),
        "index": lambda: app.schedules.index.snapshot(wait=BOUND_SECONDS),
        "search": lambda: app.schedules.page(limit=50, q="099"),
        "paused": lambda: app.schedules.page(limit=50, status="paused"),
        "load": lambda: read_load(store, datetime.now(UTC), without=()),
    }
    for name, look in looks.items():
        for _ in range(1 if name in ("search_unread", "index", "load") else 3):
            began = time.perf_counter()
            await look()
            taken[name] = 1000 * (time.perf_counter() - began)
    answer(**taken)


def main() -> None:
    tune_garbage_collector()
    uvloop.run(_closed(_command(sys.argv[1:])))


async def _closed(work: Coroutine[object, object, None]) -> None:
    async with app:
        await work


def _command(words: list[str]) -> Coroutine[object, object, None]:
    match words:
        case ["herd", schedules]:
            return herd(int(schedules))
        case ["pace", schedules, seconds]:
            return pace(int(schedules), int(seconds))
        case ["crowd", total, due, seconds]:
            return crowd(int(total), int(due), int(seconds))
        case ["look", total, calls]:
            return look(int(total), int(calls))
        case ["many", total]:
            return many(int(total))
        case other:
            sys.exit(f"mainspring_many does not know {other}")
