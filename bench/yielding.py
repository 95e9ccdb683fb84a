"""A map over what a task yields, of any size: python -m bench.yielding --store URL [--items 100000].

One process makes the items, runs them and adds up their results. It prints how long that took beside a tenth of the
items, how much memory the process needed beyond an idle worker, and the most that it found in the store: unfinished
items, and bytes of the flow's row. The store should be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator

import msgspec
import uvloop

from mainspring import Context, Mainspring, Results
from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.ids import JobId
from mainspring.worker.flow_reads import flow_store
from mainspring.worker.recycle import resident_bytes

SAMPLE_SECONDS = 0.05
IDLE_SECONDS = 2.0


class Watch:
    """The most that was seen while a flow ran."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self.memory = self.unfinished = self.row = 0

    async def look(self, id: JobId) -> None:
        self.memory = max(self.memory, resident_bytes() or 0)
        for found in await flow_store(await self._app._engine.connect()).flows([id]):
            self.row = max(self.row, len(msgspec.json.encode(found.row)))
            left = [counts.made - counts.ended for counts in found.row.counts.values()]
            self.unfinished = max(self.unfinished, *left, 0)


def make_app(store: str) -> Mainspring:
    app = Mainspring(store)

    @app.task
    async def rows(ctx: Context, count: int) -> AsyncIterator[int]:
        for n in range(ctx.made, count):
            yield n

    @app.task
    async def score(n: int) -> int:
        return n

    @app.task
    async def total(parts: Results[int]) -> int:
        found = 0
        async for n in parts:
            found += n
        return found

    @app.flow
    def load(count: int) -> int:
        return total.step(score.map(rows.step(count)))

    return app


async def play(app: Mainspring, items: int) -> tuple[float, Watch]:
    """Seconds from the flow's enqueue to its result."""
    watch, began = Watch(app), time.perf_counter()
    handle = await app.tasks["load"].enqueue(items)
    ended = asyncio.ensure_future(handle.result())
    while not ended.done():
        await watch.look(handle.id)
        await asyncio.wait([ended], timeout=SAMPLE_SECONDS)
    assert ended.result() == items * (items - 1) // 2
    return time.perf_counter() - began, watch


async def measure(options: argparse.Namespace) -> None:
    app = make_app(options.store)
    async with app, app.worker(concurrency=options.slots):
        await asyncio.sleep(IDLE_SECONDS)
        gc.collect()
        idle = resident_bytes() or 0
        few, _ = await play(app, options.items // 10)
        many, watch = await play(app, options.items)
    print(f"{options.items // 10:,} items: {few:.2f} s; {options.items:,}: {many:.2f} s, {many / few:.1f} x")
    print(f"memory: {idle / 1e6:.1f} MB idle, {(watch.memory - idle) / 1e6:.1f} MB more at most")
    print(f"most unfinished items: {watch.unfinished:,}; largest row: {watch.row:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.yielding", description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=500)
    options = parser.parse_args()
    if min(options.items // 10, options.slots) < 1:
        sys.exit("bench.yielding: --items is at least 10, --slots at least 1")
    tune_garbage_collector()
    uvloop.run(measure(options))


if __name__ == "__main__":
    main()
