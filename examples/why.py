"""Why is this job not running? Every reason, and until when.

Prints:
    reminder
      not_due: it is due at 2040-01-01 09:00:00Z
      queue_paused: queue 'mail' was paused 0 s ago (…); resume it to go on
      no_worker: no worker is alive: start one with `mainspring worker`
    second import
      workers_full: the only slot of worker … is taken
      in the way: the first import
    first import
      running: it has been running on … since …, attempt 1
    first import, later
      final: it completed at …
"""

import asyncio
from datetime import UTC, datetime

from mainspring import Mainspring

app = Mainspring("memory://")
begun, may_end = asyncio.Event(), asyncio.Event()


@app.task(queue="mail")
async def remind(user: int) -> None: ...


@app.task
async def import_orders(path: str) -> None:
    begun.set()
    await may_end.wait()


async def explain(what: str, id: str) -> tuple[str, ...]:
    print(what)
    reasons = await app.jobs.why(id)
    for reason in reasons:
        print(f"  {reason.code}: {reason.text}")
    return reasons[0].holders


async def main() -> None:
    async with app:
        await app.queues.pause("mail")
        reminder = await remind.using(run_at=datetime(2040, 1, 1, 9, tzinfo=UTC)).enqueue(7)
        await explain("reminder", reminder.id)

        async with app.worker(concurrency=1):
            first = await import_orders.enqueue("1.csv")
            await begun.wait()
            second = await import_orders.enqueue("2.csv")
            assert await explain("second import", second.id) == (first.id,)
            print("  in the way: the first import")
            await explain("first import", first.id)
            may_end.set()
            await first.result(timeout=10)
            await explain("first import, later", first.id)


if __name__ == "__main__":
    asyncio.run(main())
