"""What flows cost beside plain jobs: python -m bench.flows --store URL [--chains 1000 --items 10000].

One process drains plain jobs, then runs many chains of ten steps, and a map with a step that reads all of its items. It
prints the median of the rounds, and the ratio to the drain of the same run. The store should be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from mainspring import Mainspring, Results
from mainspring.cli.event_loop import tune_garbage_collector

from .many_groups import BATCH, BOUND_SECONDS, Meter

STEPS = 10
meter = Meter()


class Flows:
    """An app with the flows that are measured."""

    def __init__(self, store: str, slots: int) -> None:
        self.app = app = Mainspring(store)
        self.slots = slots

        @app.task
        async def plain() -> None:
            meter.tick()

        @app.task
        async def hop(n: int) -> int:
            meter.tick()
            return n + 1

        @app.flow
        def chain(n: int) -> int:
            for _ in range(STEPS):
                n = hop.step(n)
            return n

        @app.task
        async def numbers(count: int) -> list[int]:
            return list(range(count))

        @app.task
        async def item(n: int) -> int:
            meter.tick()
            return n

        @app.task
        async def total(parts: Results[int]) -> int:
            return sum([n async for n in parts])

        @app.flow
        def fan(count: int) -> int:
            return total.step(item.map(numbers.step(count)))

        self.plain, self.chain, self.fan = plain, chain, fan

    async def run(self, jobs: int, act: Callable[[], Awaitable[object]]) -> float:
        """Seconds until `act` has returned and `jobs` jobs have ticked, with a worker that finds work waiting."""
        meter.reset()
        start = time.perf_counter()
        async with asyncio.timeout(BOUND_SECONDS), self.app.worker(concurrency=self.slots):
            await act()
            while meter.jobs < jobs:
                await asyncio.sleep(0.01)
        return time.perf_counter() - start

    async def drain(self, jobs: int) -> float:
        """Seconds from the first to the last start of plain jobs."""
        for start in range(0, jobs, BATCH):
            await self.app.enqueue_many([self.plain.job() for _ in range(start, min(start + BATCH, jobs))])
        await self.run(jobs, lambda: asyncio.sleep(0))
        return meter.last - meter.first

    async def chains(self, count: int) -> float:
        """Steps per second of many chains."""
        handles = await self.app.enqueue_many([self.chain.job(n) for n in range(count)])

        async def all_end() -> None:
            for n, handle in enumerate(handles):
                assert await handle.result() == n + STEPS

        await self.run(count * STEPS, all_end)
        return count * STEPS / (meter.last - meter.first)

    async def fan_in(self, items: int) -> tuple[float, float]:
        """Seconds of the whole flow, and items per second from the first start to the last."""
        handle = await self.fan.enqueue(items)
        spent = 0.0

        async def ends() -> None:
            nonlocal spent
            began = time.perf_counter()
            assert await handle.result() == items * (items - 1) // 2
            spent = time.perf_counter() - began

        await self.run(items, ends)
        return spent, items / (meter.last - meter.first)


def show(name: str, values: list[float], ratio: str = "") -> None:
    spread = f"[{min(values):,.2f} .. {max(values):,.2f}]"
    print(f"{name:42} {statistics.median(values):12,.2f}  {spread:28} {ratio}", flush=True)


async def compare(options: argparse.Namespace) -> None:
    flows = Flows(options.store, options.slots)
    async with flows.app:
        plain = [await flows.drain(options.items) for _ in range(options.runs)]
        rate = options.items / statistics.median(plain)
        show("drain, jobs/s", [options.items / seconds for seconds in plain])
        if options.chains:
            steps = [await flows.chains(options.chains) for _ in range(options.runs)]
            show(
                f"{options.chains} chains of {STEPS}, steps/s", steps, f"{statistics.median(steps) / rate:.2f} x drain"
            )
        fans = [await flows.fan_in(options.items) for _ in range(options.runs)]
        whole, items = [seconds for seconds, _ in fans], [per_second for _, per_second in fans]
        show(f"map of {options.items}, items/s", items, f"{statistics.median(items) / rate:.2f} x drain")
        times = statistics.median(whole) / statistics.median(plain)
        show(f"map of {options.items} and its sum, seconds", whole, f"{times:.2f} x the time of the drain")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.flows", description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--chains", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if min(options.items, options.slots, options.runs) < 1:
        sys.exit("bench.flows: --items, --slots and --runs are at least 1")
    tune_garbage_collector()
    uvloop.run(compare(options))


if __name__ == "__main__":
    main()
