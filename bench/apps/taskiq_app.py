"""TaskIQ's side: its broker on a stream, which acknowledges what has run, and no result backend."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import peer
from meter import Meter
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(peer.DSN, consumer_id="0")  # read from the beginning, whoever comes first
meter = Meter(Path(os.environ["BENCH_HOME"]))


@broker.task(task_name="noop")
async def noop(text: str = "") -> None:
    meter.tick()


@broker.task(task_name="stamp")
async def stamp(due: float) -> None:
    meter.late(due)


class Queue:
    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        await broker.startup()
        yield
        await broker.shutdown()

    async def put(self, jobs: int, batch: int) -> None:
        await peer.together(self.one, jobs)

    async def one(self) -> None:
        await noop.kiq(*peer.ARGS)

    async def stamp(self, due: float) -> None:
        await stamp.kiq(due)

    async def work(self, size: int) -> None:
        await run_receiver_task(broker, max_async_tasks=size, run_startup=True)


def main() -> None:
    peer.main(Queue())
