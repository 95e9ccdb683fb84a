"""Celery's side: no results, and jobs in the worker's own thread, its fastest in one process."""

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
        alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        app.worker_main(["worker", "-P", "solo", *alone, "-l", "WARNING", "-n", f"worker-{os.getpid()}@bench"])


def main() -> None:
    peer.main(Queue())
