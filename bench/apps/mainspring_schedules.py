"""Mainspring's schedules: how late their ticks are, and what finding and firing them costs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvloop
from meter import Meter, answer, percentile

from mainspring import Context, Mainspring
from mainspring.events import TickFired
from mainspring.schedule.edit import create
from mainspring.schedule.record import Firing, Schedule, Spec
from mainspring.stores import open_store
from mainspring.trigger import Every

HOME = Path(os.environ["BENCH_HOME"])
CHUNK, DUE, BATCH, WARM_UP = 1_000, 10, 500, 5

app = Mainspring(f"sqlite:///{HOME}/schedules.db", durability="full")
started, fired = Meter(HOME), Meter(HOME / "fired")


@app.task
async def stamp(ctx: Context) -> None:
    assert ctx.scheduled_at is not None
    started.late(ctx.scheduled_at.timestamp())


@app.on(TickFired)
def note(event: TickFired) -> None:
    fired.late(event.tick.at.timestamp())


async def ticks(schedules: int) -> None:
    """A worker with so many schedules of one tick a second each, spread evenly over it."""
    for n in range(schedules):
        phase = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=n / schedules)
        app.schedule(f"every-second-{n}", Every(seconds=1, anchor=phase), stamp)
    await app.worker().run()


async def burst(schedules: int, lead: float) -> None:
    """A worker with so many schedules that all tick at the same instant, `lead` seconds after they were made."""
    at = datetime.now(UTC) + timedelta(seconds=lead)
    for n in range(schedules):
        app.schedule(f"together-{n}", Every(seconds=3600, anchor=at), stamp)
    await app.worker().run()


def made(n: int, now: datetime, due_at: datetime) -> Schedule:
    return create(
        f"schedule-{n}", Spec(trigger=Every(seconds=86_400, anchor=due_at), task="stamp"), owner="user", now=now
    )


async def due(schedules: int, calls: int) -> None:
    """What finding those that are due costs: ten of so many, the others within the next day."""
    store = open_store(f"sqlite:///{HOME}/schedules.db")
    await store.open()
    now = datetime.now(UTC)
    if not await store.schedules(limit=1):
        for first in range(0, schedules, CHUNK):
            rows = [made(n, now, now + timedelta(seconds=60 + n / 10)) for n in range(first, first + CHUNK)]
            await store.fire([Firing(schedule=row) for row in rows], now=now)
        past = now - timedelta(seconds=1)
        rows = [made(schedules + n, past - timedelta(seconds=1), past) for n in range(DUE)]
        await store.fire([Firing(schedule=row) for row in rows], now=now)
    taken = []
    for _ in range(WARM_UP + calls):
        start = time.perf_counter()
        found = await store.due(now=now, limit=BATCH)
        taken.append(1000 * (time.perf_counter() - start))
        if len(found.schedules) != DUE:
            sys.exit(f"{len(found.schedules)} schedules were due instead of {DUE}")
    await store.close()
    answer(p50=percentile(taken[WARM_UP:], 0.50), p99=percentile(taken[WARM_UP:], 0.99))


def main() -> None:
    uvloop.run(_command(sys.argv[1:]))


def _command(words: list[str]) -> Coroutine[object, object, None]:
    match words:
        case ["ticks", schedules]:
            return ticks(int(schedules))
        case ["burst", schedules, lead]:
            return burst(int(schedules), float(lead))
        case ["due", schedules, calls]:
            return due(int(schedules), int(calls))
        case other:
            sys.exit(f"mainspring_schedules does not know {other}")
