"""The app of tests in which items are collected, its worker, and its producer (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import victim
from audit import Log
from victim import arguments

from mainspring import Collect, Mainspring

# Concurrent requests of a producer.
HANDS = 3


def make(url: str, log: Log | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, **settings)

    @app.task(collect=Collect(size=7, delay=0.3, grace=0.05))
    async def gather(items: list[str]) -> int:
        await asyncio.sleep(0.2)
        return len(items)

    return app


async def produce(app: Mainspring, log: Log, name: str) -> None:
    """Enqueues items, and logs each once it is acknowledged."""
    for n in count():
        item = f"{name}-{n}"
        await app.tasks["gather"].enqueue(item)
        log.note("acknowledged", item)


async def serve(url: str, log: Log, settings: dict[str, Any]) -> None:
    if (called := settings.pop("produces", None)) is None:
        await make(url, log, **settings).worker().run()
    else:
        app = make(url)
        await asyncio.gather(*(produce(app, log, f"{called}-{hand}") for hand in range(HANDS)))


def main() -> None:
    asyncio.run(serve(*arguments()))
