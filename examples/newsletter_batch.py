"""A newsletter as a batch: letters of two kinds, one that fails, a callback for each way it can end, and a redrive.

Prints:
    first death: 1 of 5 so far
    issue 7: BatchFailed with 5 jobs (4 completed, 1 dead)
    the address is corrected
    sent: 5 jobs (5 completed)
    issue 7: 5 jobs (5 completed)
    ended 2 times
"""

import asyncio
import logging

from mainspring import BatchFailed, BatchSummary, Filter, Mainspring

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
app = Mainspring("memory://")
unknown = {"carol"}
ended: list[int] = []


@app.task(queue="mail", max_retries=0)
async def send(to: str) -> None:
    if to in unknown:
        raise LookupError(f"{to} has no address")


@app.task(queue="paper")
def print_letter(to: str) -> None: ...


@app.task
async def sent(batch: BatchSummary) -> None:
    print(f"sent: {batch.counts}")


@app.task
async def alert(batch: BatchSummary) -> None:
    print(f"first death: {batch.counts.dead} of {batch.counts.total} so far")


@app.task
async def tidy(batch: BatchSummary) -> None:
    ended.append(batch.counts.unfinished)


async def main() -> None:
    async with app:
        async with app.batch("issue 7", on_success=sent, on_failure=alert, on_complete=tidy) as batch:
            await batch.enqueue_many(send.job(to) for to in ("ada", "bob", "carol", "dan"))
            await batch.enqueue(print_letter.job("eve"))
            await app.drain()
        try:
            await app.drain()
            await batch.result(timeout=5)
        except BatchFailed as failed:
            print(f"issue 7: BatchFailed with {failed.counts}")
        unknown.clear()
        print("the address is corrected")
        await app.dead.redrive(Filter(tasks=("send",)))
        await app.drain()
        print(f"issue 7: {await batch.result(timeout=5)}")
        print(f"ended {len(ended)} times")


asyncio.run(main())
