"""PostgreSQL: a job in the caller's own transaction, an effect that is one commit with its job, several workers.

`python postgres.py postgresql://user:password@host/name`; it makes a schema of its own and drops it in the end.

Prints:
    rolled back: 0 orders, 0 jobs
    committed: 1 order, 1 job
    two workers: 21 runs, 21 orders are paid
"""

import asyncio
import sys
from typing import Any

import asyncpg

from mainspring import Context, Handle, Mainspring

URL = sys.argv[1] if len(sys.argv) > 1 else "postgresql://127.0.0.1/postgres"
SCHEMA = "mainspring_example"
app = Mainspring(URL, postgres_schema=SCHEMA)


@app.task
async def pay(ctx: Context, order: int) -> None:
    async with ctx.transaction() as db:  # one commit: the order is paid if and only if the job is completed
        await db.execute(f"UPDATE {SCHEMA}.orders SET paid = true WHERE id = $1", order)


async def buy(db: Any) -> Handle[None]:
    """An order and its job, in the transaction of `db`."""
    order: int = await db.fetchval(f"INSERT INTO {SCHEMA}.orders DEFAULT VALUES RETURNING id")
    return await pay.using(within=db).enqueue(order)


async def show(db: Any, what: str) -> None:
    orders, jobs = await db.fetchval(f"SELECT count(*) FROM {SCHEMA}.orders"), (await app.stats()).pending
    print(f"{what}: {orders} order{'s' * (orders != 1)}, {jobs} job{'s' * (jobs != 1)}")


async def main(db: Any) -> None:
    await app.stats()  # makes the tables of the jobs
    await db.execute(f"CREATE TABLE {SCHEMA}.orders (id integer GENERATED ALWAYS AS IDENTITY, paid boolean)")
    transaction = db.transaction()
    await transaction.start()
    await buy(db)
    await transaction.rollback()
    await show(db, "rolled back")
    async with db.transaction():
        await buy(db)
    await show(db, "committed")
    async with app.worker(), app.worker():  # in production on other machines: NOTIFY wakes them
        async with db.transaction():
            jobs = [await buy(db) for _ in range(20)]
        await asyncio.gather(*(job.result(timeout=20) for job in jobs))
    paid = await db.fetchval(f"SELECT count(*) FROM {SCHEMA}.orders WHERE paid")
    print(f"two workers: {(await app.stats()).by_task['pay'].runs} runs, {paid} orders are paid")


async def run() -> None:
    db = await asyncpg.connect(URL)
    try:
        async with app:
            await main(db)
    finally:
        await db.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        await db.close()


if __name__ == "__main__":
    asyncio.run(run())
