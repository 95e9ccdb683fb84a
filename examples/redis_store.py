"""Redis: the same jobs on a Redis or Valkey server; several apps share it, each under a prefix of its own.

`python redis_store.py redis://127.0.0.1:6379/0`; its keys begin with {example-shop}: and {example-blog}:.

Prints:
    the same wish twice is one job: True
    completed: receipt for order 7
    101 jobs, 101 runs, by two workers
    the other app has 0 jobs
    refused: a job in the caller's own transaction
"""

import asyncio
import sqlite3
import sys

from mainspring import BadInput, Mainspring

URL = sys.argv[1] if len(sys.argv) > 1 else "redis://127.0.0.1:6379/0"
shop = Mainspring(URL, redis_key_prefix="example-shop")
blog = Mainspring(URL, redis_key_prefix="example-blog")


@shop.task
async def receipt(order: int) -> str:
    return f"receipt for order {order}"


async def runs() -> int:
    counted = (await shop.stats()).by_task.get("receipt")
    return counted.runs if counted else 0


async def main() -> None:
    before = await runs()
    keyed = receipt.using(unique_key="receipt:7")
    job, again = await keyed.enqueue(7), await keyed.enqueue(7)
    print("the same wish twice is one job:", again.duplicate and again.id == job.id)
    async with shop.worker(), shop.worker():  # in production on other machines
        print("completed:", await job.result(timeout=20))
        handles = await shop.enqueue_many(receipt.job(n) for n in range(100))
        await asyncio.gather(*(handle.result(timeout=20) for handle in handles))
    print(f"{1 + len(handles)} jobs, {await runs() - before} runs, by two workers")
    print(f"the other app has {len(await blog.jobs.list())} jobs")
    try:
        await receipt.using(within=sqlite3.connect(":memory:")).enqueue(8)
    except BadInput:
        print("refused: a job in the caller's own transaction")  # Redis has none to share


async def run() -> None:
    async with shop, blog:
        await main()


if __name__ == "__main__":
    asyncio.run(run())
