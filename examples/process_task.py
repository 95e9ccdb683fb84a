"""CPU work in a process of its own: it may compute as long as its timeout says, hold as much as its memory_limit says.

Prints:
    the 1,000th prime is 7,919, found in another process: True
    CPU time and peak memory are kept: True
    too greedy: MemoryLimitExceeded
    too slow: JobTimeout
    the worker lives on: the 10th prime is 29
"""

import asyncio
import os

from mainspring import Execution, JobDead, Mainspring

app = Mainspring("memory://")


# At the top of a module, where the other process finds it by name.
@app.task(executor="process", timeout=60, memory_limit="256MB", concurrency=1)
def prime(number: int) -> tuple[int, int]:
    found: list[int] = []
    candidate = 1
    while len(found) < number:
        candidate += 1
        if all(candidate % smaller for smaller in found):
            found.append(candidate)
    return candidate, os.getpid()


@app.task(executor="process", timeout=60, memory_limit="64MB", max_retries=0)
def greedy() -> int:
    return len(bytearray(512 << 20))


@app.task(executor="process", timeout=1, max_retries=0)
def slow() -> int:
    return sum(range(10**12))  # no exception could interrupt this: the process is killed


async def last_run(id: str) -> Execution:
    return (await app.executions.list(job_id=id))[-1]


async def main() -> None:
    async with app, app.worker():
        job = await prime.enqueue(1000)
        value, pid = await job.result(timeout=60)
        print(f"the 1,000th prime is {value:,}, found in another process: {pid != os.getpid()}")
        usage = (await last_run(job.id)).usage
        print(f"CPU time and peak memory are kept: {usage is not None and usage.cpu > 0 and usage.memory > 2**20}")
        for task in (greedy, slow):
            bad = await task.enqueue()
            try:
                await bad.result(timeout=60)
            except JobDead:
                failure = (await last_run(bad.id)).failure
                print(f"too {task.name}: {failure.type if failure else None}")
        value, _ = await (await prime.enqueue(10)).result(timeout=60)
        print(f"the worker lives on: the 10th prime is {value}")


# The other process imports this file too: without the guard it would start a worker of its own.
if __name__ == "__main__":
    asyncio.run(main())
