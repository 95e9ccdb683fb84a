"""A task that writes output, and its worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio

import victim
from audit import Log

from mainspring import Context, Mainspring
from mainspring.store import Store


def make(url: str, log: Log | None = None, *, store: Store | None = None, **settings: object) -> Mainspring:
    app = victim.make(url, log, store=store, **settings)

    @app.task
    async def speak(ctx: Context, count: int) -> None:
        for n in range(count):
            await ctx.write(n)
            await asyncio.sleep(0.002)  # so that it is killed in the middle

    return app


def main() -> None:
    url, log, settings = victim.arguments()
    asyncio.run(make(url, log, **settings).worker().run())
