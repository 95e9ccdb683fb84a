"""Flows over tasks that yield, and their worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import victim
from audit import Log

from mainspring import Context, Mainspring, Results
from mainspring.store import Store


def make(url: str, log: Log | None = None, *, store: Store | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, store=store, **settings)

    @app.task
    async def rows(ctx: Context, count: int) -> AsyncIterator[int]:
        for n in range(ctx.made, count):
            yield n

    @app.task
    def rows_anew(count: int) -> Iterator[int]:
        yield from range(count)

    @app.task
    async def square(n: int) -> int:
        return n * n

    @app.task
    async def total(parts: Results[int]) -> int:
        return sum([part async for part in parts])

    @app.flow
    def stream(count: int, anew: bool) -> int:
        return total.step(square.map((rows_anew if anew else rows).using(step="rows").step(count)))

    return app


def main() -> None:
    url, log, settings = victim.arguments()
    asyncio.run(make(url, log, **settings).worker().run())
