"""How soon a signal wakes what waits for it: python -m bench.signals --store URL [--rounds 200 --waiting 0].

One process has an idle worker. In turn it enqueues a job, gives a signal to a flow and one to a durable task, and takes
the time from before the call to the start of the job, of the step behind the signal, and of the next run. It prints
medians, 99th percentiles, and the ratios to the jobs. `waiting` flows beside wait for signals that never come.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from mainspring import Context, Filter, Handle, Mainspring, signal
from mainspring.cli.event_loop import tune_garbage_collector

PAUSE_SECONDS = 0.03
WARM_ROUNDS = 20
BOUND_SECONDS = 20


class Signals:
    """An app whose jobs say when they start."""

    def __init__(self, store: str) -> None:
        self.app = app = Mainspring(store)
        self.started = asyncio.Event()
        self.at = 0.0

        def begin() -> None:
            self.at = time.perf_counter()
            self.started.set()

        @app.task
        async def job() -> None:
            begin()

        @app.task
        async def step(value: int) -> None:
            begin()

        @app.flow
        def flow() -> None:
            return step.step(signal("go", int))

        @app.task
        async def durable(ctx: Context) -> None:
            await ctx.signal("go", int)
            begin()

        self.job, self.flow, self.durable = job, flow, durable

    async def time_of(self, act: Callable[[], Awaitable[Any]]) -> float:
        """Milliseconds from before the call to the start of what it starts."""
        await asyncio.sleep(PAUSE_SECONDS)
        self.started.clear()
        begun = time.perf_counter()
        await act()
        async with asyncio.timeout(BOUND_SECONDS):
            await self.started.wait()
        return (self.at - begun) * 1000

    async def waits(self, run: Handle[Any]) -> Handle[Any]:
        async with asyncio.timeout(BOUND_SECONDS):
            while (await run.job()).state != "waiting":
                await asyncio.sleep(0.002)
        return run

    async def round(self) -> tuple[float, float, float]:
        plain = await self.time_of(self.job.enqueue)
        flow, durable = await self.waits(await self.flow.enqueue()), await self.waits(await self.durable.enqueue())
        of_flow = await self.time_of(lambda: flow.signal("go", 1))
        return plain, of_flow, await self.time_of(lambda: durable.signal("go", 1))


async def measure(store: str, rounds: int, waiting: int) -> None:
    signals = Signals(store)
    async with signals.app as app, app.worker():
        if waiting:
            begun = time.perf_counter()
            for first in range(0, waiting, 1000):
                await app.enqueue_many([signals.flow.job() for _ in range(first, min(first + 1000, waiting))])
            await asyncio.sleep(1)
            while await app.jobs.list(Filter(states=("pending", "running")), limit=1):
                await asyncio.sleep(0.5)
            print(f"{waiting:,} flows wait after {time.perf_counter() - begun:.1f} s")
        times = [await signals.round() for _ in range(WARM_ROUNDS + rounds)][WARM_ROUNDS:]
    base = 0.0
    for name, some in zip(("job", "signal to a flow", "signal to a task"), zip(*times, strict=True), strict=True):
        p50, p99 = statistics.median(some), statistics.quantiles(some, n=100)[98]
        base = base or p50
        print(f"{name:18} p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  {p50 / base:.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.signals", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--store", required=True)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--waiting", type=int, default=0)
    given = parser.parse_args()
    tune_garbage_collector()
    uvloop.run(measure(given.store, given.rounds, given.waiting))


if __name__ == "__main__":
    main()
