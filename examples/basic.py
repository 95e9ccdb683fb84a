"""One task, one worker, one result.

Prints:
    Hello, Ada!
"""

import asyncio

from mainspring import Mainspring

app = Mainspring("memory://")  # "sqlite:///jobs.db" keeps the jobs in a file


@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    async with app, app.worker():
        job = await greet.enqueue("Ada")
        print(await job.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
