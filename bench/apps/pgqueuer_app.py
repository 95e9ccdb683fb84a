"""PgQueuer's side: asyncpg, a pool for its worker, one connection for its producer."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import peer
from meter import Meter
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

meter = Meter(Path(os.environ["BENCH_HOME"]))


class Queue:
    """Its tables are emptied job by job; a log of every change of state remains, as by default."""

    queries: Queries

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        connection = await asyncpg.connect(peer.DSN)
        self.queries = Queries(AsyncpgDriver(connection))
        yield
        await connection.close()

    async def setup(self) -> None:
        async with self.producer():
            await self.queries.install()

    async def put(self, jobs: int, batch: int) -> None:
        for first in range(0, jobs, batch):
            share = min(batch, jobs - first)
            await self.queries.enqueue(["noop"] * share, [b"x"] * share, [0] * share)

    async def one(self) -> None:
        await self.queries.enqueue("noop", b"x")

    async def stamp(self, due: float) -> None:
        await self.queries.enqueue("stamp", repr(due).encode())

    async def work(self, size: int) -> None:
        queue = PgQueuer(AsyncpgPoolDriver(await asyncpg.create_pool(peer.DSN, min_size=2, max_size=8)))

        @queue.entrypoint("noop")
        async def noop(job: Job) -> None:
            meter.tick()

        @queue.entrypoint("stamp")
        async def stamp(job: Job) -> None:
            meter.late(float(job.payload or b"0"))

        await queue.run(batch_size=size)


def main() -> None:
    peer.main(Queue())
