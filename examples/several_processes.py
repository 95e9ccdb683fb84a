"""Several processes on one store; only the leader fires. It is killed, and another one takes over.

`python several_processes.py URL` does it on PostgreSQL or Redis instead of a SQLite file.

Prints:
    three workers, one fires: True
    the leader is killed
    another one fires: True
    every tick has one job: True
"""

import asyncio
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from mainspring import Filter, Mainspring
from mainspring.events import TickFired

TERM_SECONDS = 2
# Ticks that are watched before and after the leader is killed.
TICKS = 2


def make_app(url: str) -> Mainspring:
    # A leader that dies is followed within leader_ttl; the default is 30 s.
    app = Mainspring(url, fire="leader", leader_ttl=TERM_SECONDS, leader_refresh=0.5)

    @app.every(seconds=0.5, overlap="allow", catch_up="all")
    async def tick() -> None: ...

    return app


async def work(url: str) -> None:
    """A worker, which prints a line for each tick that it fires."""
    app = make_app(url)
    app.on(TickFired)(lambda event: print(os.getpid(), flush=True))
    await app.worker().run()


async def start(url: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, __file__, "work", url, stdout=asyncio.subprocess.PIPE)


async def main(url: str) -> None:
    workers = [await start(url) for _ in range(3)]
    fired: asyncio.Queue[int] = asyncio.Queue()
    readers = [asyncio.create_task(read(worker, fired)) for worker in workers]
    try:
        async with asyncio.timeout(60):
            await watch(url, workers, fired)
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.kill()
        await asyncio.gather(*readers, *(worker.wait() for worker in workers))


async def read(worker: asyncio.subprocess.Process, fired: asyncio.Queue[int]) -> None:
    """The process ids of those that fire, in order."""
    assert worker.stdout is not None
    async for line in worker.stdout:
        fired.put_nowait(int(line))


async def watch(url: str, workers: list[asyncio.subprocess.Process], fired: asyncio.Queue[int]) -> None:
    first = [await fired.get() for _ in range(TICKS)]
    print("three workers, one fires:", len(set(first)) == 1)
    (leader,) = [worker for worker in workers if worker.pid == first[0]]
    leader.kill()
    await leader.wait()
    print("the leader is killed")
    second = [await fired.get() for _ in range(2 * TICKS)]
    heirs = set(second) - {leader.pid}
    print("another one fires:", len(heirs) == 1)
    async with make_app(url) as app:
        jobs = await app.jobs.list(Filter(tasks=("tick",)), limit=1000)
        instants = sorted(job.scheduled_at for job in jobs if job.scheduled_at)
        steps = {(after - before).total_seconds() for before, after in pairwise(instants)}
        print("every tick has one job:", steps == {0.5})


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        asyncio.run(work(sys.argv[2]))
    elif len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(f"sqlite:///{Path(folder, 'jobs.db')}"))
