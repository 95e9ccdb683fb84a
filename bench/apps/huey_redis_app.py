"""Huey's side on Redis: results off, a consumer of threads."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import peer
from huey import RedisHuey
from meter import Meter

meter = Meter(Path(os.environ["BENCH_HOME"]))
huey = RedisHuey("bench", url=peer.DSN, results=False)


@huey.task()
def noop(text: str = "") -> None:
    meter.tick()


@huey.task()
def stamp(due: float) -> None:
    meter.late(due)


class Queue:
    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def put(self, jobs: int, batch: int) -> None:
        for _ in range(jobs):
            noop(*peer.ARGS)

    async def one(self) -> None:
        noop(*peer.ARGS)

    async def stamp(self, due: float) -> None:
        stamp(due)

    async def work(self, size: int) -> None:
        huey.create_consumer(workers=size, worker_type="thread").run()


def main() -> None:
    peer.main(Queue())
