"""Dramatiq's side: its Redis broker and default middleware, a worker's threads in this process."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import dramatiq
import peer
from dramatiq.brokers.redis import RedisBroker
from meter import Meter

AHEAD = 1_000  # by default two messages for each thread, which then wait for the broker's next look
meter = Meter(Path(os.environ["BENCH_HOME"]))
broker = RedisBroker(url=peer.DSN)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(text: str = "") -> None:
    meter.tick()


@dramatiq.actor
def stamp(due: float) -> None:
    meter.late(due)


class Queue:
    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def put(self, jobs: int, batch: int) -> None:
        for _ in range(jobs):
            noop.send(*peer.ARGS)

    async def one(self) -> None:
        noop.send(*peer.ARGS)

    async def stamp(self, due: float) -> None:
        stamp.send(due)

    async def work(self, size: int) -> None:
        worker = dramatiq.Worker(broker, worker_threads=size)
        worker.queue_prefetch = AHEAD
        worker.start()
        await asyncio.Event().wait()


def main() -> None:
    peer.main(Queue())
