"""RQ's side: a worker that does not fork, no results kept."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import peer
import rq
from meter import Meter
from redis import Redis

meter = Meter(Path(os.environ["BENCH_HOME"]))
queue = rq.Queue(connection=Redis.from_url(peer.DSN))


def noop(text: str = "") -> None:
    meter.tick()


def stamp(due: float) -> None:
    meter.late(due)


class Queue:
    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def put(self, jobs: int, batch: int) -> None:
        for first in range(0, jobs, batch):
            share = min(batch, jobs - first)
            queue.enqueue_many([rq.Queue.prepare_data(noop, args=peer.ARGS, result_ttl=0) for _ in range(share)])

    async def one(self) -> None:
        queue.enqueue(noop, *peer.ARGS, result_ttl=0)

    async def stamp(self, due: float) -> None:
        queue.enqueue(stamp, due, result_ttl=0)

    async def work(self, size: int) -> None:
        rq.SimpleWorker([queue], connection=queue.connection).work(logging_level="WARNING")


def main() -> None:
    peer.main(Queue())
