"""Mainspring's side of the durable steps: a task that calls ctx.step()."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager

import step_peer
from step_peer import meter

from mainspring import Context, Mainspring
from mainspring.cli.event_loop import tune_garbage_collector

app = Mainspring(step_peer.DSN or f"sqlite:///{os.environ['BENCH_HOME']}/../mainspring.db", durability="full")


async def hop(n: int) -> int:
    meter.mark(n)
    return n + 1


@app.task
async def walk(ctx: Context, steps: int) -> None:
    n = 0
    for _ in range(steps):
        n = await ctx.step(hop, n)
    meter.end(n)


class Steps:
    async def setup(self) -> None:
        async with app:
            pass

    def producer(self) -> AbstractAsyncContextManager[object]:
        return app

    async def walks(self, jobs: int, steps: int) -> None:
        await app.enqueue_many([walk.job(steps) for _ in range(jobs)])

    async def work(self, size: int) -> None:
        tune_garbage_collector()
        async with app:
            await app.worker(concurrency=size).run()


def main() -> None:
    step_peer.main(Steps())
