"""Celery's side of the flows: a chord and chains, results in Redis, jobs in the worker's own thread."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, nullcontext

import flow_peer
from celery import Celery, chain, chord
from flow_peer import meter
from meter import STEPS

app = Celery("bench", broker=flow_peer.DSN, backend=flow_peer.DSN)
app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=64)


@app.task(name="item")
def item(n: int) -> int:
    meter.tick()
    return n


@app.task(name="total")
def total(parts: list[int]) -> int:
    value = sum(parts)
    meter.end(value)
    return value


@app.task(name="hop")
def hop(n: int) -> int:
    meter.tick()
    return n + 1


@app.task(name="last")
def last(n: int) -> int:
    meter.tick()
    meter.end(n + 1)
    return n + 1


class Flows:
    async def setup(self) -> None: ...

    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def fan(self, items: int) -> None:
        chord([item.s(n) for n in range(items)], total.s()).delay()

    async def chains(self, count: int) -> None:
        for _ in range(count):
            chain(hop.s(0), *(hop.s() for _ in range(STEPS - 2)), last.s()).delay()

    async def work(self, size: int) -> None:
        alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        app.worker_main(["worker", "-P", "solo", *alone, "-l", "WARNING", "-n", f"worker-{os.getpid()}@bench"])


def main() -> None:
    flow_peer.main(Flows())
