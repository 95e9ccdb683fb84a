"""SAQ's side: its queue on PostgreSQL or Redis, jobs deleted when they are done."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import peer
import saq
from meter import Meter

# A pool of psycopg's; redis-py has one that grows as needed.
POOL = {"min_size": 4, "max_size": 20} if peer.DSN.startswith("postgresql:") else {}
meter = Meter(Path(os.environ["BENCH_HOME"]))


async def noop(context: Any, *, text: str = "") -> None:
    meter.tick()


async def stamp(context: Any, *, due: float) -> None:
    meter.late(due)


class Queue:
    queue: saq.Queue

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        self.queue = saq.Queue.from_url(peer.DSN, **POOL)
        await self.queue.connect()
        yield
        await self.queue.disconnect()

    async def setup(self) -> None:
        async with self.producer():
            pass  # it makes its tables when it connects

    async def put(self, jobs: int, batch: int) -> None:
        await peer.together(self.one, jobs)

    async def one(self) -> None:
        await self.queue.enqueue("noop", ttl=-1, **dict(zip(("text",), peer.ARGS, strict=False)))

    async def stamp(self, due: float) -> None:
        await self.queue.enqueue("stamp", due=due, ttl=-1)

    async def work(self, size: int) -> None:
        logging.basicConfig(level=logging.WARNING)
        async with self.producer():
            await saq.Worker(self.queue, functions=[("noop", noop), ("stamp", stamp)], concurrency=size).start()


def main() -> None:
    peer.main(Queue())
