"""The app of tests with limits, and its worker (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import victim
from audit import Log
from victim import arguments

from mainspring import Limit, Mainspring

# Of jobs of one key, and of all keys.
RUNNING, TOTAL = 2, 9
RATE, BURST = 50, 5


def make(url: str, log: Log | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, **settings)

    @app.task(limit=Limit(running=RUNNING, total=TOTAL, by="key"))
    async def share(key: str) -> None:
        await asyncio.sleep(0.1)

    @app.task(limit=Limit(rate=RATE, burst=BURST))
    async def metered() -> None:
        await asyncio.sleep(0.1)

    return app


def main() -> None:
    url, log, settings = arguments()
    asyncio.run(make(url, log, **settings).worker().run())
