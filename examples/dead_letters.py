"""Dead jobs: seeing why, and running them again once the cause is gone.

Prints:
    3 dead
    dead: sync ConnectionError: crm is down
    dead: sync ConnectionError: crm is down
    dead: sync ConnectionError: crm is down
    retried by id: 1
    retried by filter: 2
    3 completed, 0 dead
    first job: failed, failed, completed
"""

import asyncio
import logging

from mainspring import Backoff, Filter, Mainspring

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
app = Mainspring("memory://")
crm_is_up = False


@app.task(max_retries=1, backoff=Backoff.constant(0.001))
async def sync(customer: int) -> None:
    if not crm_is_up:
        raise ConnectionError("crm is down")


async def run_until_nothing_is_left() -> None:
    while (stats := await app.stats()).pending + stats.retrying:
        await app.drain()


async def main() -> None:
    global crm_is_up
    async with app:
        first, *_ = [await sync.enqueue(n) for n in (1, 2, 3)]
        await run_until_nothing_is_left()

        dead = await app.jobs.list(Filter(states=("dead",)))
        print(f"{len(dead)} dead")
        for job in dead:
            assert job.failure is not None
            print(f"dead: {job.task} {job.failure.type}: {job.failure.message}")

        crm_is_up = True
        await app.jobs.retry(first.id)
        print("retried by id: 1")
        changed = await app.jobs.retry(Filter(states=("dead",), tasks=("sync",)))
        print(f"retried by filter: {len(changed.done)}")
        await run_until_nothing_is_left()

        stats = await app.stats()
        print(f"{stats.completed} completed, {stats.dead} dead")
        runs = await app.executions.list(job_id=first.id)
        print(f"first job: {', '.join(run.ending for run in runs)}")


if __name__ == "__main__":
    asyncio.run(main())
