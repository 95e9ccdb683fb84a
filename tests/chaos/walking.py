"""Tasks of durable steps, and their worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import victim
from audit import Log
from msgspec import Struct

from mainspring import Context, Mainspring
from mainspring.store import Store

STEPS = 5
MADE = datetime(2026, 1, 1, tzinfo=UTC)


class Part(Struct):
    n: int
    made: datetime


def take_in_child(log: str, id: str, n: int) -> Part:
    Log(Path(log)).note(f"step{n}", id)
    return Part(n, MADE)


def walk_in_child(ctx: Context, log: str, dies: bool) -> int:
    """With `dies` the child of each of three runs is killed behind one step more than that of the run before."""
    total = 0
    for n in range(STEPS):
        part = ctx.sync.step(take_in_child, log, ctx.job.id, n)
        assert isinstance(part, Part)
        assert part.made == MADE
        total += part.n
        if dies and ctx.job.runs == n + 1 <= 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return total


def make(url: str, log: Log | None = None, *, store: Store | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, store=store, **settings)

    async def take(id: str, n: int) -> Part:
        assert log is not None
        log.note(f"step{n}", id)
        return Part(n, MADE)

    def take_plainly(id: str, n: int) -> Part:
        assert log is not None
        log.note(f"step{n}", id)
        return Part(n, MADE)

    @app.task(max_retries=0)
    async def walk(ctx: Context) -> int:
        parts = [await ctx.step(take, ctx.job.id, n) for n in range(STEPS)]
        assert all(isinstance(part, Part) and part.made == MADE for part in parts)
        return sum(part.n for part in parts)

    @app.task(max_retries=0)
    def walk_plainly(ctx: Context) -> int:
        parts = [ctx.sync.step(take_plainly, ctx.job.id, n) for n in range(STEPS)]
        assert all(isinstance(part, Part) and part.made == MADE for part in parts)
        return sum(part.n for part in parts)

    @app.task
    async def follow(n: int) -> int:
        return n

    @app.task(max_retries=0)
    async def lead(ctx: Context) -> int:
        total = 0
        for n in range(STEPS):
            total += await ctx.run(follow, n)
        return total + sum(await ctx.map(follow.using(step="all"), range(STEPS)))

    app.task(max_retries=0, executor="process")(walk_in_child)
    return app


def main() -> None:
    url, log, settings = victim.arguments()
    asyncio.run(make(url, log, **settings).worker().run())
