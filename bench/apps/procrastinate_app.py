"""Procrastinate's side: psycopg with its C parts, finished jobs kept, as by default."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import peer
from meter import Meter
from procrastinate import App, PsycopgConnector

meter = Meter(Path(os.environ["BENCH_HOME"]))
app = App(connector=PsycopgConnector(conninfo=peer.DSN, min_size=4, max_size=20))


@app.task(name="noop")
async def noop() -> None:
    meter.tick()


@app.task(name="stamp")
async def stamp(due: float) -> None:
    meter.late(due)


class Queue:
    def producer(self) -> AbstractAsyncContextManager[object]:
        return app.open_async()

    async def setup(self) -> None:
        async with self.producer():
            await app.schema_manager.apply_schema_async()

    async def put(self, jobs: int, batch: int) -> None:
        for first in range(0, jobs, batch):
            await noop.batch_defer_async(*({} for _ in range(min(batch, jobs - first))))

    async def one(self) -> None:
        await noop.defer_async()

    async def stamp(self, due: float) -> None:
        await stamp.defer_async(due=due)

    async def work(self, size: int) -> None:
        async with self.producer():
            await app.run_worker_async(concurrency=size)


def main() -> None:
    peer.main(Queue())
