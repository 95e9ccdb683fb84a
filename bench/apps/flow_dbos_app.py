"""DBOS' side of the flows: a workflow that enqueues others and awaits each, and workflows of ten steps."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import flow_peer
from dbos import DBOS, DBOSClient, DBOSConfig
from flow_peer import meter
from meter import STEPS

URL = flow_peer.DSN
config: DBOSConfig = {
    "name": "bench", "system_database_url": URL, "log_level": "WARNING", "application_version": "1", "executor_id": "1",
}  # fmt: skip


@DBOS.workflow(name="item")
async def item(n: int) -> int:
    meter.tick()
    return n


@DBOS.workflow(name="fan")
async def fan(items: int) -> int:
    handles = [await DBOS.enqueue_workflow_async("items", item, n) for n in range(items)]
    value = sum([await handle.get_result() for handle in handles])
    meter.end(value)
    return value


@DBOS.step(name="hop")
async def hop(n: int) -> int:
    meter.tick()
    return n + 1


@DBOS.workflow(name="chain")
async def chain() -> int:
    n = 0
    for _ in range(STEPS):
        n = await hop(n)
    meter.end(n)
    return n


class Flows:
    async def setup(self) -> None:
        await asyncio.to_thread(launch, 1)
        await asyncio.to_thread(DBOS.destroy)

    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def fan(self, items: int) -> None:
        await self._start("fan", [(items,)])

    async def chains(self, count: int) -> None:
        await self._start("chain", [()] * count)

    async def _start(self, workflow: str, calls: list[tuple[int, ...]]) -> None:
        client = await asyncio.to_thread(DBOSClient, system_database_url=URL)
        for arguments in calls:
            options: Any = {"queue_name": "flows", "workflow_name": workflow, "app_version": "1"}
            await client.enqueue_async(options, *arguments)

    async def work(self, size: int) -> None:
        await asyncio.to_thread(launch, size)
        await asyncio.Event().wait()


def launch(size: int) -> None:
    DBOS(config=config)
    DBOS.launch()
    for name in ("flows", "items"):
        DBOS.register_queue(name, worker_concurrency=size, polling_interval_sec=0.05)


def main() -> None:
    flow_peer.main(Flows())
