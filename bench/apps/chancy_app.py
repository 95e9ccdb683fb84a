"""Chancy's side: its asyncio executor with eager polling."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import chancy
import peer
from chancy.app import setup_default_logger
from meter import Meter

meter = Meter(Path(os.environ["BENCH_HOME"]))


@chancy.job(queue="default")
async def noop() -> None:
    meter.tick()


@chancy.job(queue="default")
async def stamp(*, due: float) -> None:
    meter.late(due)


class Queue:
    app: chancy.Chancy

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        async with chancy.Chancy(peer.DSN, log=setup_default_logger(logging.WARNING)) as self.app:
            yield

    async def setup(self) -> None:
        async with self.producer():
            await self.app.migrate()

    async def put(self, jobs: int, batch: int) -> None:
        async for _ in self.app.push_many([noop.job] * jobs, batch_size=batch):
            pass

    async def one(self) -> None:
        await self.app.push(noop)

    async def stamp(self, due: float) -> None:
        await self.app.push(stamp.job.with_kwargs(due=due))

    async def work(self, size: int) -> None:
        async with self.producer():
            queue = chancy.Queue("default", concurrency=size, executor=chancy.Chancy.Executor.Async, eager_polling=True)
            await self.app.declare(queue, upsert=True)
            async with chancy.Worker(self.app) as worker:
                await worker.wait_for_shutdown()


def main() -> None:
    peer.main(Queue())
