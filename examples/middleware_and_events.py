"""Middleware stands around a run and may change it; events report it afterwards and may not.

Prints:
    enqueued greet (new)
    for the task: in
    for the app: in
    greet runs for tenant 7
    for the app: out
    for the task: out
    ended greet: completed
    HELLO, ADA!
"""

import asyncio
from typing import Any

from mainspring import Context, Mainspring
from mainspring.events import JobEnded, JobEnqueued
from mainspring.middleware import Next


async def for_the_app(ctx: Context, call_next: Next) -> Any:
    print("for the app: in")
    try:
        return await call_next(ctx)
    finally:
        print("for the app: out")


async def shout(ctx: Context, call_next: Next) -> Any:
    print("for the task: in")
    value = await call_next(ctx)
    print("for the task: out")
    return value.upper()  # middleware may change what comes back


app = Mainspring("memory://", middleware=[for_the_app])


@app.task(middleware=[shout])
async def greet(ctx: Context, name: str) -> str:
    print(f"greet runs for tenant {ctx.metadata['tenant']}")
    return f"Hello, {name}!"


@app.on(JobEnqueued)
def enqueued(event: JobEnqueued) -> None:
    print(f"enqueued {event.task} ({event.status})")


@app.on(JobEnded)
def ended(event: JobEnded) -> None:
    print(f"ended {event.job.task}: {event.outcome.state}")
    if event.outcome.failure is None:
        raise RuntimeError("a subscriber that raises is logged; the job does not notice")


async def main() -> None:
    async with app:
        job = await greet.using(metadata={"tenant": 7}).enqueue("Ada")
        await app.drain()
        print(await job.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
