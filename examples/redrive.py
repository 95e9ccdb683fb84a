"""Dead jobs: seeing what they died of, and running them again once the cause is gone.

Prints:
    3 x charge, ConnectionError: bank … does not answer
    1 x charge, Discard: no account -…
    redriven with another account: 1
    redriven as a group: 3
    4 completed, 0 dead
    first job: failed, failed, completed
"""

import asyncio
import logging

from mainspring import Backoff, Discard, Mainspring

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
app = Mainspring("memory://")
banks_answer = False


@app.task(max_retries=1, backoff=Backoff.constant(0.001))
async def charge(account: int) -> None:
    if account < 0:
        raise Discard(f"no account {account}")
    if not banks_answer:
        raise ConnectionError(f"bank {account % 7} does not answer")


async def run_until_nothing_is_left() -> None:
    while (stats := await app.stats()).pending + stats.retrying:
        await app.drain()


async def main() -> None:
    global banks_answer
    async with app:
        first, *_ = [await charge.enqueue(account) for account in (1, 2, 3, -4)]
        await run_until_nothing_is_left()
        unreachable, unknown = await app.dead.groups()  # alike but for numbers, ids and quoted values
        for group in (unreachable, unknown):
            print(f"{group.count} x {group.task}, {group.error}")

        banks_answer = True
        changed = await app.dead.redrive(unknown.newest, arguments={"account": 4})
        print(f"redriven with another account: {len(changed.done)}")
        changed = await app.dead.redrive(unreachable)
        print(f"redriven as a group: {len(changed.done)}")
        await run_until_nothing_is_left()

        stats = await app.stats()
        print(f"{stats.completed} completed, {stats.dead} dead")
        runs = await app.executions.list(job_id=first.id)
        print(f"first job: {', '.join(run.ending for run in runs)}")


if __name__ == "__main__":
    asyncio.run(main())
