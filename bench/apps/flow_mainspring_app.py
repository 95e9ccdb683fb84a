"""Mainspring's side of the flows: a map with a step that reads its items in pages, and chains."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager

import flow_peer
from flow_peer import meter
from meter import STEPS

from mainspring import Mainspring, Results
from mainspring.cli.event_loop import tune_garbage_collector

BATCH = 1_000
app = Mainspring(flow_peer.DSN or f"sqlite:///{os.environ['BENCH_HOME']}/../mainspring.db", durability="full")


@app.task
async def numbers(count: int) -> list[int]:
    return list(range(count))


@app.task
async def item(n: int) -> int:
    meter.tick()
    return n


@app.task
async def total(parts: Results[int]) -> int:
    value = sum([n async for n in parts])
    meter.end(value)
    return value


@app.task
async def hop(n: int) -> int:
    meter.tick()
    return n + 1


@app.task
async def last(n: int) -> int:
    meter.tick()
    meter.end(n + 1)
    return n + 1


@app.flow
def fan(count: int) -> int:
    return total.step(item.map(numbers.step(count)))


@app.flow
def chain(n: int) -> int:
    for _ in range(STEPS - 1):
        n = hop.step(n)
    return last.step(n)


class Flows:
    async def setup(self) -> None:
        async with app:
            pass

    def producer(self) -> AbstractAsyncContextManager[object]:
        return app

    async def fan(self, items: int) -> None:
        await fan.enqueue(items)

    async def chains(self, count: int) -> None:
        for first in range(0, count, BATCH):
            await app.enqueue_many([chain.job(0) for _ in range(min(BATCH, count - first))])

    async def work(self, size: int) -> None:
        tune_garbage_collector()
        async with app:
            await app.worker(concurrency=size).run()


def main() -> None:
    flow_peer.main(Flows())
