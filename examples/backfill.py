"""Past ticks made up for: first a dry run, then their jobs, once however often it is repeated.

Prints:
    would make: 2030-01-01, 2030-01-02, 2030-01-03
    totals of 2030-01-01: 3 orders
    totals of 2030-01-02: 5 orders
    totals of 2030-01-03: 0 orders
    again: 0 made, 3 there already
    after its job of the 2nd is gone: 1 made
"""

import asyncio
from datetime import UTC, datetime, timedelta

from mainspring import Context, Filter, Mainspring
from mainspring.testing import VirtualClock

clock = VirtualClock(datetime(2030, 1, 4, 12, tzinfo=UTC))
app = Mainspring("memory://", clock=clock)
orders = {"2030-01-01": 3, "2030-01-02": 5}


@app.cron("0 0 * * *")
async def totals(ctx: Context) -> None:
    assert ctx.scheduled_at is not None
    day = f"{ctx.scheduled_at:%Y-%m-%d}"  # of the tick, not of the clock
    print(f"totals of {day}: {orders.get(day, 0)} orders")


async def main() -> None:
    start, end = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 4, tzinfo=UTC)
    async with app:
        planned = await app.schedules.backfill("totals", start, end, dry_run=True)
        print("would make:", ", ".join(f"{tick:%Y-%m-%d}" for tick in planned.made))
        await app.schedules.backfill("totals", start, end)
        await app.drain()
        again = await app.schedules.backfill("totals", start, end)
        print(f"again: {len(again.made)} made, {len(again.there)} there already")

        # A job that completed, waits or runs holds its tick; one that is dead, cancelled or deleted does not.
        second = datetime(2030, 1, 2, tzinfo=UTC)
        jobs = [job for job in await app.jobs.list(Filter(tasks=("totals",))) if job.scheduled_at == second]
        await app.jobs.delete(jobs[0].id)
        made = await app.schedules.backfill("totals", second, second + timedelta(days=1))
        print(f"after its job of the 2nd is gone: {len(made.made)} made")


if __name__ == "__main__":
    asyncio.run(main())
