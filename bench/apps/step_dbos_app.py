"""DBOS' side of the durable steps: a workflow that calls a step again and again."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import step_peer
from dbos import DBOS, DBOSClient, DBOSConfig
from step_peer import meter

URL = step_peer.DSN
config: DBOSConfig = {
    "name": "bench", "system_database_url": URL, "log_level": "WARNING", "application_version": "1", "executor_id": "1",
}  # fmt: skip


@DBOS.step(name="hop")
async def hop(n: int) -> int:
    meter.mark(n)
    return n + 1


@DBOS.workflow(name="walk")
async def walk(steps: int) -> int:
    n = 0
    for _ in range(steps):
        n = await hop(n)
    meter.end(n)
    return n


class Steps:
    async def setup(self) -> None:
        await asyncio.to_thread(launch, 1)
        await asyncio.to_thread(DBOS.destroy)

    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def walks(self, jobs: int, steps: int) -> None:
        client = await asyncio.to_thread(DBOSClient, system_database_url=URL)
        options: Any = {"queue_name": "walks", "workflow_name": "walk", "app_version": "1"}
        for _ in range(jobs):
            await client.enqueue_async(options, steps)

    async def work(self, size: int) -> None:
        await asyncio.to_thread(launch, size)
        await asyncio.Event().wait()


def launch(size: int) -> None:
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue("walks", worker_concurrency=size, polling_interval_sec=0.05)


def main() -> None:
    step_peer.main(Steps())
