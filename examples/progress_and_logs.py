"""What a run reports while it goes on: log lines, progress, and how its items went.

Prints:
    live: run 1 INFO opening orders.csv
    live: run 1 WARNING row 8 has no price
    live: run 1 INFO 29 rows imported
    progress: 30 of 30 rows
    items: 29 imported, 1 failed: partial
    kept with the run: {'file': 'orders.csv'}
"""

import asyncio
import logging

from mainspring import Context, Mainspring

logging.getLogger("mainspring.task").setLevel(logging.CRITICAL)  # the lines are kept whatever logging does with them
app = Mainspring("memory://")


@app.task  # failed_ratio=0.5: the run fails if more than half of its items did
async def import_orders(ctx: Context, path: str) -> None:
    ctx.log.info("opening %s", path)
    ctx.note(file=path)
    for row in range(30):
        if row == 8:
            ctx.log.warning("row %d has no price", row)
            ctx.items(failed=1)
        else:
            ctx.items(success=1)
        ctx.progress(row + 1, 30, "rows")
        await asyncio.sleep(0)
    ctx.log.info("29 rows imported")


async def main() -> None:
    async with app, app.worker():
        job = await import_orders.enqueue("orders.csv")
        async for line in app.jobs.tail(job.id):  # what there is, then what comes, until the job has ended
            print(f"live: run {line.run} {logging.getLevelName(line.level)} {line.text}")

        progress = (await job.job()).progress
        assert progress is not None
        print(f"progress: {progress.done:g} of {progress.total:g} {progress.note}")
        (run,) = await app.executions.list(job_id=job.id)
        assert run.items is not None
        print(f"items: {run.items.success} imported, {run.items.failed} failed: {run.items.verdict()}")
        print(f"kept with the run: {run.metadata}")


if __name__ == "__main__":
    asyncio.run(main())
