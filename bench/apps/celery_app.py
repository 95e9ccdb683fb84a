"""Celery's side: no results, a pool of threads."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import peer
from celery import Celery
from meter import Meter

meter = Meter(Path(os.environ["BENCH_HOME"]))
app = Celery("bench", broker=peer.DSN)
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True, worker_prefetch_multiplier=64)


@app.task(name="noop")
def noop(text: str = "") -> None:
    meter.tick()


@app.task(name="stamp")
def stamp(due: float) -> None:
    meter.late(due)


class Queue:
    def producer(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def put(self, jobs: int, batch: int) -> None:
        for _ in range(jobs):
            noop.delay(*peer.ARGS)

    async def one(self) -> None:
        noop.delay(*peer.ARGS)

    async def stamp(self, due: float) -> None:
        stamp.delay(due)

    async def work(self, size: int) -> None:
        name = f"worker-{os.getpid()}@bench"
        app.worker_main(["worker", "-P", "threads", "-c", str(size), "-l", "WARNING", "-n", name])


def main() -> None:
    peer.main(Queue())
