"""A client that repeats each request until it is acknowledged, and logs that (`main`, started by forked.py)."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from itertools import count
from typing import Any

from audit import Log
from victim import arguments, make

from mainspring import Mainspring, NewJob
from mainspring.errors import StoreUnavailable

# Concurrent requests; seconds between two jobs, and between two tries of one.
HANDS, PAUSE, RETRY_SECONDS = 4, 0.05, 0.05
KEYS = 2


def wished(app: Mainspring, name: str, n: int) -> NewJob:
    """A job identified by its id, by an idempotency key, or by a unique key."""
    effect = app.tasks["effect"]
    kinds = (effect, effect.using(idempotency_key=f"{name}-{n}"), effect.using(unique_key=f"{name}-{n % KEYS}"))
    return kinds[n % 3].job()


async def insist(app: Mainspring, job: NewJob) -> str:
    while True:
        try:
            return (await app.enqueue_many([job]))[0].id
        except StoreUnavailable:
            await asyncio.sleep(RETRY_SECONDS)


async def shop(app: Mainspring, log: Log, name: str) -> None:
    for n in count():
        job = wished(app, name, n)
        log.note("acknowledged", await insist(app, job), lease=job.unique_key or job.idempotency_key or "-")
        await asyncio.sleep(PAUSE)


async def serve(url: str, log: Log, settings: dict[str, Any]) -> None:
    app = make(url)
    shops = asyncio.gather(*(shop(app, log, f"{settings['called']}-{hand}") for hand in range(HANDS)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, shops.cancel)
    with suppress(asyncio.CancelledError):
        await shops


def main() -> None:
    asyncio.run(serve(*arguments()))
