"""Absurd's side of the flows: a task that spawns others in a second queue and awaits each, and tasks of ten steps."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import flow_peer
import psycopg
from absurd_sdk import AsyncAbsurd
from flow_peer import meter
from meter import STEPS

flows = AsyncAbsurd(flow_peer.DSN, queue_name="flows")
items = AsyncAbsurd(flow_peer.DSN, queue_name="items")
spawner = AsyncAbsurd(flow_peer.DSN, queue_name="items")


@items.register_task(name="item")
async def item(params: Any, ctx: Any) -> int:
    meter.tick()
    return int(params["n"])


@flows.register_task(name="fan")
async def fan(params: Any, ctx: Any) -> int:
    async def spawn() -> list[str]:
        made = [
            await spawner.spawn("item", {"n": n}, queue="items", idempotency_key=f"{params['flow']}:{n}")
            for n in range(params["items"])
        ]
        return [str(one["task_id"]) for one in made]

    ids = await ctx.step("spawn", spawn)
    results = [await ctx.await_task_result(one, queue_name="items") for one in ids]
    value = sum(one.result for one in results)
    meter.end(value)
    return value


async def hop(n: int) -> int:
    meter.tick()
    return n + 1


@flows.register_task(name="chain")
async def chain(params: Any, ctx: Any) -> int:
    n = 0
    for step in range(STEPS):
        n = await ctx.step(f"hop-{step}", partial(hop, n))
    meter.end(n)
    return n


class Flows:
    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await flows.close()

    async def setup(self) -> None:
        control = Path(sys.executable).parent / "absurdctl"
        subprocess.run([control, "init", "-d", flow_peer.DSN], check=True, stdout=sys.stderr)
        for app in (flows, items):
            await app.create_queue()
            await app.close()

    async def fan(self, items: int) -> None:
        await flows.spawn("fan", {"items": items, "flow": str(uuid4())})

    async def chains(self, count: int) -> None:
        for _ in range(count):
            await flows.spawn("chain", {})

    async def work(self, size: int) -> None:
        await asyncio.gather(
            flows.start_worker(concurrency=size, poll_interval=0.05),
            items.start_worker(concurrency=size, poll_interval=0.05),
        )


def main() -> None:
    psycopg.connect(flow_peer.DSN).close()  # a clear error, if there is none
    flow_peer.main(Flows())
