"""arq's side: its queue polled every 10 ms, no results kept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import peer
from arq import ArqRedis, Worker, create_pool, func
from arq.connections import RedisSettings
from meter import Meter

POLL = 0.01  # by default it looks twice a second
SETTINGS = RedisSettings.from_dsn(peer.DSN)
meter = Meter(Path(os.environ["BENCH_HOME"]))


async def noop(context: Any, text: str = "") -> None:
    meter.tick()


async def stamp(context: Any, due: float) -> None:
    meter.late(due)


class Queue:
    pool: ArqRedis

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        self.pool = await create_pool(SETTINGS)
        yield
        await self.pool.aclose()

    async def put(self, jobs: int, batch: int) -> None:
        await peer.together(self.one, jobs)

    async def one(self) -> None:
        await self.pool.enqueue_job("noop", *peer.ARGS)

    async def stamp(self, due: float) -> None:
        await self.pool.enqueue_job("stamp", due)

    async def work(self, size: int) -> None:
        functions = [func(noop, name="noop"), func(stamp, name="stamp")]
        await Worker(
            functions, redis_settings=SETTINGS, max_jobs=size, poll_delay=POLL, keep_result=0, handle_signals=False
        ).async_run()


def main() -> None:
    peer.main(Queue())
