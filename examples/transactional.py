"""A job in the caller's own transaction: stored with the order, or not at all.

Prints:
    rolled back: 0 orders, 0 jobs
    committed: 1 orders, 1 jobs
    receipt for order 1
"""

import asyncio
import sqlite3
import tempfile
from pathlib import Path

from mainspring import Mainspring


async def main(file: Path) -> None:
    app = Mainspring(f"sqlite:///{file}")

    @app.task
    async def send_receipt(order: int) -> str:
        return f"receipt for order {order}"

    async with app:
        mine = sqlite3.connect(file)
        mine.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        mine.commit()

        async def place_order() -> None:
            number = mine.execute("INSERT INTO orders DEFAULT VALUES").lastrowid
            assert number is not None
            await send_receipt.using(within=mine).enqueue(number)

        async def count(what: str) -> None:
            orders = mine.execute("SELECT count(*) FROM orders").fetchone()[0]
            print(f"{what}: {orders} orders, {len(await app.jobs.list())} jobs")

        await place_order()
        mine.rollback()  # something went wrong: no order, no job
        await count("rolled back")

        await place_order()
        mine.commit()  # now both are there, and a worker may take the job
        await count("committed")
        mine.close()

        await app.drain()
        (job,) = await app.jobs.list()
        print((job.result or "").strip('"'))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder, "shop.db")))
