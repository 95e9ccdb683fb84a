"""Chancy's side of the flows: its workflows. They pass no values, so the last job of each is told what to note."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import chancy
import flow_peer
from chancy.app import setup_default_logger
from chancy.plugins.workflow import Workflow, WorkflowPlugin
from flow_peer import meter
from meter import STEPS

TOGETHER = 20


@chancy.job(queue="default")
async def tick() -> None:
    meter.tick()


@chancy.job(queue="default")
async def total(*, value: int) -> None:
    meter.end(value)


@chancy.job(queue="default")
async def last(*, value: int) -> None:
    meter.tick()
    meter.end(value)


def chain() -> Workflow:
    flow = Workflow("chain").add("1", tick)
    for step in range(2, STEPS):
        flow.add(f"{step}", tick, [f"{step - 1}"])
    return flow.add(f"{STEPS}", last.job.with_kwargs(value=STEPS), [f"{STEPS - 1}"])


class Flows:
    app: chancy.Chancy

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        async with chancy.Chancy(flow_peer.DSN, log=setup_default_logger(logging.WARNING)) as self.app:
            yield

    async def setup(self) -> None:
        async with self.producer():
            await self.app.migrate()

    async def fan(self, items: int) -> None:
        flow = Workflow("fan").add_group([(f"{n}", tick) for n in range(items)])
        value = items * (items - 1) // 2
        flow.add("total", total.job.with_kwargs(value=value), [f"{n}" for n in range(items)])
        await WorkflowPlugin.push(self.app, flow)

    async def chains(self, count: int) -> None:
        for first in range(0, count, TOGETHER):
            share = min(TOGETHER, count - first)
            await asyncio.gather(*(WorkflowPlugin.push(self.app, chain()) for _ in range(share)))

    async def work(self, size: int) -> None:
        async with self.producer():
            queue = chancy.Queue("default", concurrency=size, executor=chancy.Chancy.Executor.Async, eager_polling=True)
            await self.app.declare(queue, upsert=True)
            async with chancy.Worker(self.app) as worker:
                await worker.wait_for_shutdown()


def main() -> None:
    flow_peer.main(Flows())
