"""A breaker stops a task that keeps failing; jobs wait meanwhile and lose no attempt. On a virtual clock.

Prints:
    while it is down: 3 runs, 2 jobs were not even tried
    why: task 'fetch' failed 3 times in a row, so its breaker is open until 2030-01-01 00:01:00Z
    a minute later, still down: 1 run, the probe
    two minutes later, up again: 5 runs, all completed
"""

import asyncio
import logging

from mainspring import Breaker, Filter, Mainspring
from mainspring.testing import VirtualClock

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
clock = VirtualClock()
app = Mainspring("memory://", clock=clock, concurrency=1)
up = False


@app.task(breaker=Breaker(failures=3, cooldown=60))
async def fetch(page: int) -> None:
    if not up:
        raise ConnectionError("the shop does not answer")


async def main() -> None:
    global up
    async with app:
        handles = [await fetch.enqueue(page) for page in range(5)]
        runs = await app.drain()  # three failures in a row, and no further job starts
        waiting = await app.jobs.list(Filter(states=("pending",)))
        print(f"while it is down: {runs} runs, {len(waiting)} jobs were not even tried")
        (reason,) = [reason for reason in await app.jobs.why(handles[-1].id) if reason.code == "breaker_open"]
        print(f"why: {reason.text}")

        clock.advance(minutes=1)  # the cooldown is over: one job may try
        print(f"a minute later, still down: {await app.drain()} run, the probe")

        up = True
        clock.advance(minutes=1)
        runs = await app.drain()  # the probe completes, and everything goes on
        assert (await app.stats()).completed == 5
        print(f"two minutes later, up again: {runs} runs, all completed")


if __name__ == "__main__":
    asyncio.run(main())
