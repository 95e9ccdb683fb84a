"""streaq's side of the flows: a task after all others, which fetches their results, and pipelines."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import flow_peer
from flow_peer import meter
from meter import STEPS
from streaq import Worker

TOGETHER = 1_000
worker: Worker[Any] = Worker(redis_url=flow_peer.DSN, concurrency=100, handle_signals=False)


@worker.task(silent=True)
async def item(n: int) -> int:
    meter.tick()
    return n


@worker.task(silent=True)
async def total(ids: list[str]) -> int:
    # `result_by_id` subscribes to a channel for each: as they have all ended, their keys can be read at once.
    value = 0
    for first in range(0, len(ids), TOGETHER):
        found = await worker.redis.mget([worker.results_key + one for one in ids[first : first + TOGETHER]])
        value += sum([(await worker.deserialize(result))["r"] for result in found])
    meter.end(value)
    return value


@worker.task(silent=True)
async def hop(n: int) -> int:
    meter.tick()
    return n + 1


@worker.task(silent=True)
async def last(n: int) -> int:
    meter.tick()
    meter.end(n + 1)
    return n + 1


def chain() -> Any:
    task: Any = hop.enqueue(0)
    for _ in range(STEPS - 2):
        task = task.then(hop)
    return task.then(last)


class Flows:
    async def setup(self) -> None: ...

    def producer(self) -> AbstractAsyncContextManager[object]:
        return worker

    async def fan(self, items: int) -> None:
        tasks = [item.enqueue(n) for n in range(items)]
        await worker.enqueue_many(tasks)
        ids = [task.id for task in tasks]
        await total.enqueue(ids).start(after=ids)

    async def chains(self, count: int) -> None:
        for _ in range(count):
            await chain()

    async def work(self, size: int) -> None:
        await worker.run_async()


def main() -> None:
    flow_peer.main(Flows())
