"""What durable steps cost beside plain jobs: python -m bench.steps --store URL [--only NAME...].

Each round takes all measurements in turn. It prints the medians and spread of all, and of the ratios of each round.

- `steps`: one job of many steps, beside as many jobs enqueued one by one
- `jobs`: many jobs of many steps, beside a drain of plain jobs
- `asleep`: so many durable jobs at once, each of which has a step and then sleeps for a day
- `claims`: claims beside what sleeps, in turn with those of a store in which one job sleeps, --few URL
- `killed`: a worker is killed in the middle of a job: from its rescue to its next step, and the steps that ran again
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from datetime import UTC, datetime, timedelta

import uvloop

from mainspring import Context, Mainspring
from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.ids import new_id
from mainspring.records.job import NewJob
from mainspring.records.outcome import Done, decide
from mainspring.records.worker import WorkerInfo
from mainspring.store import Store
from mainspring.stores import open_store

from .many_groups import BATCH, Meter

PARTS = ("steps", "jobs", "asleep", "claims", "killed")
JOBS, STEPS_A_JOB, KILLED_STEPS = 100, 100, 1_000
WORKER, CLAIMED, WARM_CLAIMS = "bench-steps", 10, 20
BOUND_SECONDS = 280.0
meter = Meter()


class Steps:
    """An app with the jobs that are measured."""

    def __init__(self, store: str, slots: int) -> None:
        self.app = app = Mainspring(store)
        self.slots = slots

        async def tick(n: int) -> int:
            meter.tick()
            return n

        async def tell(n: int) -> int:
            print(n, flush=True)
            return n

        @app.task
        async def plain() -> None:
            meter.tick()

        @app.task
        async def walk(ctx: Context, steps: int) -> None:
            for n in range(steps):
                await ctx.step(tick, n)

        @app.task
        async def nap(ctx: Context) -> None:
            await ctx.step(tick, 0)
            await ctx.sleep(days=1)

        @app.task
        async def told(ctx: Context, steps: int) -> None:
            for n in range(steps):
                await ctx.step(tell, n)

        self.plain, self.walk, self.nap, self.told = plain, walk, nap, told

    async def work(self, ticks: int) -> None:
        """Runs a worker until there were so many ticks."""
        meter.reset()
        async with asyncio.timeout(BOUND_SECONDS), self.app.worker(concurrency=self.slots):
            while meter.jobs < ticks:
                await asyncio.sleep(0.01)

    async def enqueue(self, count: int) -> float:
        """Jobs/s of jobs enqueued one by one."""
        start = time.perf_counter()
        for _ in range(count):
            await self.plain.enqueue()
        return count / (time.perf_counter() - start)

    async def drain(self, left: int, more: int) -> float:
        """Jobs/s of plain jobs, of which some are `left` in the store."""
        for start in range(0, more, BATCH):
            await self.app.enqueue_many([self.plain.job() for _ in range(start, min(start + BATCH, more))])
        await self.work(left + more)
        return rate(left + more)

    async def walks(self, jobs: int, steps: int) -> float:
        """Steps/s from the first step to the last."""
        await self.app.enqueue_many([self.walk.job(steps) for _ in range(jobs)])
        await self.work(jobs * steps)
        return rate(jobs * steps)

    async def sleepers(self, count: int) -> float:
        """Jobs/s until all of them sleep."""
        for start in range(0, count, BATCH):
            await self.app.enqueue_many([self.nap.job() for _ in range(start, min(start + BATCH, count))])
        begun = time.perf_counter()
        await self.work(count)
        return count / (time.perf_counter() - begun)

    async def resumed(self, store: str) -> dict[str, float]:
        """A worker process is killed in the middle of a job, and another one goes on."""
        handle = await self.told.enqueue(KILLED_STEPS)
        first = await served(store)
        before = {await next_number(first) for _ in range(KILLED_STEPS // 2)}
        first.kill()
        killed = time.time()
        assert first.stdout is not None
        before |= {int(line) for line in (await first.stdout.read()).split()}
        second = await served(store)
        after = {await next_number(second)}
        resumed = time.time()
        after |= {await next_number(second) for _ in range(max(after) + 1, KILLED_STEPS)}
        await handle.result(timeout=BOUND_SECONDS)
        second.terminate()
        await second.wait()
        runs = await self.app.executions.list(job_id=handle.id)
        rescued = min(run.finished_at for run in runs).timestamp()
        return {
            "killed, seconds to the next step": resumed - killed,
            "killed, ms from the rescue to the next step": 1000 * (resumed - rescued),
            "killed, steps that ran again (1 was under way)": len(before & after),
        }


def rate(ticks: int) -> float:
    return (ticks - 1) / (meter.last - meter.first)


async def served(store: str) -> Process:
    """A process with a worker, which prints the number of each step."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.steps", "--store", store, "--serve", stdout=PIPE
    )


async def next_number(child: Process) -> int:
    assert child.stdout is not None
    async with asyncio.timeout(BOUND_SECONDS):
        return int(await child.stdout.readline())


async def claims(urls: dict[str, str], calls: int) -> dict[str, list[float]]:
    """Milliseconds of each claim, in turn from each store. It takes as many jobs as were put there before it."""
    stores = {name: open_store(url) for name, url in urls.items()}
    taken: dict[str, list[float]] = {name: [] for name in stores}
    for store in stores.values():
        await store.open()
        now = datetime.now(UTC)
        info = WorkerInfo(id=WORKER, host="bench", pid=1, queues=None, tasks=(), concurrency=500, started_at=now)
        await store.beat(info, until=now + timedelta(hours=1), now=now)
    for call in range(WARM_CLAIMS + calls):
        for name, store in stores.items():
            spent = await claim_once(store)
            if call >= WARM_CLAIMS:
                taken[name].append(spent)
    for store in stores.values():
        await store.close()
    return taken


async def claim_once(store: Store) -> float:
    now = datetime.now(UTC)
    jobs = [NewJob(id=new_id(now), task="plain", queue="default", payload="[]") for _ in range(CLAIMED)]
    await store.enqueue(jobs, now=now)
    start = time.perf_counter()
    claim = await store.claim(["default"], worker=WORKER, tasks=["plain", "nap"], limit=CLAIMED, now=datetime.now(UTC))
    spent = 1000 * (time.perf_counter() - start)
    if len(claim.jobs) != CLAIMED:
        sys.exit(f"bench.steps: a claim gave {len(claim.jobs)} jobs instead of {CLAIMED}")
    await store.finish([decide(job, Done(), now=datetime.now(UTC)) for job in claim.jobs])
    return spent


class Table:
    """The figures of all rounds."""

    def __init__(self) -> None:
        self._found: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self._found.setdefault(name, []).append(value)

    def add_pair(self, base: tuple[str, float], other: tuple[str, float], ratio: str) -> None:
        for name, value in (base, other):
            self.add(name, value)
        self.add(ratio, other[1] / base[1])

    def show(self) -> None:
        for name, values in self._found.items():
            spread = f"[{min(values):,.2f} .. {max(values):,.2f}]"
            print(f"{name:48} {statistics.median(values):12,.2f}  {spread}", flush=True)


async def measure(options: argparse.Namespace) -> None:
    steps, table, count = Steps(options.store, options.slots), Table(), options.steps
    async with steps.app:
        await steps.walks(1, 10)
        for _ in range(options.rounds):
            left = 0
            if "steps" in options.only:
                left, one = count, await steps.enqueue(count)
                await steps.drain(left, 0)
                many = await steps.walks(1, count)
                table.add_pair(
                    ("enqueued one by one, jobs/s", one),
                    (f"{count:,} steps in one job, steps/s", many),
                    "÷ enqueued one by one",
                )
            if "jobs" in options.only:
                plain = await steps.drain(0, JOBS * STEPS_A_JOB)
                many = await steps.walks(JOBS, STEPS_A_JOB)
                table.add_pair(("drain, jobs/s", plain), (f"{JOBS} × {STEPS_A_JOB} steps, steps/s", many), "÷ drain")
        if "asleep" in options.only:
            table.add(f"{options.asleep:,} durable jobs that sleep, jobs/s", await steps.sleepers(options.asleep))
        if "killed" in options.only:
            for name, value in (await steps.resumed(options.store)).items():
                table.add(name, value)
    if "claims" in options.only:
        little = Steps(options.few, options.slots)
        async with little.app:
            await little.sleepers(1)
        found = await claims({"few": options.few, "asleep": options.store}, options.claims)
        for name, share in (("p50", 50), ("p99", 99)):
            few, many = (statistics.quantiles(found[one], n=100)[share - 1] for one in ("few", "asleep"))
            base, other = (f"claim of {CLAIMED}, {name}, ms", few), (f"beside what sleeps, {name}, ms", many)
            table.add_pair(base, other, f"÷ {name}")
    table.show()


async def serve(options: argparse.Namespace) -> None:
    await Steps(options.store, options.slots).app.worker(concurrency=options.slots).run()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.steps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--store", required=True, metavar="URL")
    add("--few", metavar="URL", help="an empty store, for claims")
    add("--only", nargs="+", choices=PARTS, default=["steps", "jobs"])
    add("--steps", type=int, default=1_000)
    add("--asleep", type=int, default=1_000)
    add("--claims", type=int, default=500)
    add("--slots", type=int, default=500)
    add("--rounds", type=int, default=5)
    add("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.steps, options.asleep, options.claims, options.slots, options.rounds) < 1:
        sys.exit("bench.steps: all numbers are at least 1")
    if "claims" in options.only and not options.few:
        sys.exit("bench.steps: claims are compared with those of another store: --few URL")
    tune_garbage_collector()
    uvloop.run(serve(options) if options.serve else measure(options))


if __name__ == "__main__":
    main()
