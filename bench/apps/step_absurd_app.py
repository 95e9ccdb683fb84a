"""Absurd's side of the durable steps: a task that calls ctx.step()."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import step_peer
from absurd_sdk import AsyncAbsurd
from step_peer import meter

app = AsyncAbsurd(step_peer.DSN, queue_name="walks")


async def hop(n: int) -> int:
    meter.mark(n)
    return n + 1


@app.register_task(name="walk")
async def walk(params: Any, ctx: Any) -> int:
    n = 0
    for step in range(params["steps"]):
        n = await ctx.step(f"hop-{step}", partial(hop, n))
    meter.end(n)
    return n


class Steps:
    @asynccontextmanager
    async def producer(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await app.close()

    async def setup(self) -> None:
        control = Path(sys.executable).parent / "absurdctl"
        subprocess.run([control, "init", "-d", step_peer.DSN], check=True, stdout=sys.stderr)
        await app.create_queue()
        await app.close()

    async def walks(self, jobs: int, steps: int) -> None:
        for _ in range(jobs):
            await app.spawn("walk", {"steps": steps})

    async def work(self, size: int) -> None:
        await app.start_worker(concurrency=size, poll_interval=0.05)


def main() -> None:
    step_peer.main(Steps())
