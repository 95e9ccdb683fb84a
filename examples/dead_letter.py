"""A job that is out of retries goes to handlers, each as a job of its own.

Prints:
    refund: order 7 could not be shipped
    every death: ship {'order': 7} after 2 attempts: ConnectionError: the depot is closed
    ship is dead, the jobs of both handlers are completed
"""

import asyncio
import logging

from mainspring import Backoff, DeadLetter, Mainspring

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
app = Mainspring("memory://")


@app.task(priority=1)
async def refund(letter: DeadLetter) -> None:
    print(f"refund: order {letter.arguments['order']} could not be shipped")


@app.task(max_retries=1, backoff=Backoff.constant(0.01), on_failure=refund)  # gets the dead jobs of this task
async def ship(order: int) -> None:
    raise ConnectionError("the depot is closed")


@app.dead_letter  # gets every dead job of this app
async def tell_operators(letter: DeadLetter) -> None:
    failure = f"{letter.failure.type}: {letter.failure.message}"
    print(f"every death: {letter.task} {letter.arguments} after {letter.attempts} attempts: {failure}")


async def main() -> None:
    async with app:
        job = await ship.enqueue(order=7)
        while (stats := await app.stats()).pending + stats.retrying:
            await app.drain()
        # Handlers were enqueued in the very step that made the job dead: no crash comes between the two.
        assert (await job.job()).state == "dead"
        assert (await app.stats()).completed == 2
        print("ship is dead, the jobs of both handlers are completed")


if __name__ == "__main__":
    asyncio.run(main())
