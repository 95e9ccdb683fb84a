"""Random ends, cancels, retries and skips of a flow with a flow in it: after each of them, rows and jobs agree.

A released step has an unfinished job of its present life, and no other step of a flow that has not completed has one; a
flow that is over does not wait.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusters import RedisCluster
from mainspring.ids import JobId
from mainspring.records.flow import SkipStep, StepStatus
from mainspring.records.job import Action, Job, State
from mainspring.records.outcome import Discard, Done, RunEnd, Skip, Suspend, decide
from mainspring.records.plan import Plan
from mainspring.records.query import Filter
from mainspring.records.worker import CarryOn
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.build import NOW, claim, claim_job, finish_run, new_job, put, read_job
from mainspring.testing.contract.flow import a_step, chain, flows_of, row_of, steps_of
from servers import Postgres, Redis

TASKS = ("inner", "s", "last", "deep", "deeper", "task")
STEP_TASKS = ("s", "last", "deep", "deeper")
STEPS = 5
PLAN = Plan(
    (
        *(a_step(f"s{n}", task="s" if n else "inner") for n in range(STEPS)),
        a_step("saved", task="s", after=(1, 2), on="failure"),
        a_step("last", after=tuple(range(STEPS)), on="end"),
    )
)
CALLS = 60


class Walk:
    """One flow, and what happened to it so far."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.chance = store, random.Random(seed)
        self.told: list[str] = []
        self.started: list[Job] = []
        """What runs since a step before it has ended."""

    async def begin(self) -> None:
        (self.outer,) = await put(self.store, new_job(plan=PLAN))
        self.inner = next(job.id for job in await steps_of(self.store, self.outer) if job.task == "inner")
        job = await claim_job(self.store, self.inner, tasks=["inner"])
        await finish_run(self.store, job, Suspend(chain("deep", "deeper")), now=NOW)

    async def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.4:
            await self.end(self.chance.choice([1, 2, 3]))
        elif kind < 0.55:
            await self.skip()
        else:
            await self.change(Action.CANCEL if kind < 0.7 else Action.RETRY)
        for id in (self.outer, self.inner):
            await self.check(id)

    async def end(self, limit: int) -> None:
        jobs = (await claim(self.store, tasks=TASKS, limit=limit)).jobs + self.started
        ends: list[RunEnd] = [
            self.chance.choice([Done("1"), Discard("no"), Skip("no"), Done('"f"', finish=True)]) for _ in jobs
        ]
        self.told += [f"{job.task} {end!r}" for job, end in zip(jobs, ends, strict=True)]
        outcomes = [decide(job, end, now=NOW) for job, end in zip(jobs, ends, strict=True)]
        more = CarryOn(worker="ada", queues=None, tasks=STEP_TASKS, limit=self.chance.choice([1, 9]), now=NOW)
        self.started = list((await self.store.finish(outcomes, carry_on=more)).carried_on)
        assert self.started == [await read_job(self.store, job.id) for job in self.started], self.told
        assert {job.state for job in self.started} <= {State.RUNNING}, self.told

    async def skip(self) -> None:
        id = self.chance.choice([self.outer, self.inner])
        step = self.chance.randrange(len((await row_of(self.store, id)).statuses))
        refusal = await flows_of(self.store).change_flow(id, SkipStep(step, "walk"), now=NOW)
        self.told.append(f"skip {step} of {id}: {refusal}")

    async def change(self, action: Action) -> None:
        jobs = [job.id for id in (self.outer, self.inner) for job in await steps_of(self.store, id)]
        chosen = self.chance.sample([self.outer, *jobs], min(3, len(jobs)))
        self.told.append(f"{action} {sorted(chosen)}")
        await self.store.change(action, Filter(ids=tuple(chosen)), now=NOW, limit=9, reason="walk")

    async def check(self, id: JobId) -> None:
        row, own = await row_of(self.store, id), await read_job(self.store, id)
        current: dict[int, Job] = {}
        for job in await steps_of(self.store, id):
            assert job.step is not None
            if job.step.life == row.lives.get(job.step.number, 0):
                current[job.step.number] = job
        released = [n for n, status in enumerate(row.statuses) if status == StepStatus.RELEASED]
        unfinished = sorted(n for n, job in current.items() if not job.state.final)
        if own.state is State.COMPLETED:  # jobs of its dead steps may run again, by themselves
            assert released == [], (row, self.told)
        else:
            assert released == unfinished, (row, self.told)
        assert (row.state == "over") is (own.state is not State.WAITING), (row, own.state, self.told)


async def walk(url: str, seeds: range) -> None:
    store = open_store(url)
    await store.open()
    for seed in seeds:
        one = Walk(store, seed)
        await one.begin()
        for _ in range(CALLS):
            await one.step()
        await store.change(Action.DELETE, Filter(), now=NOW, limit=1000)
        await store.change(Action.CANCEL, Filter(), now=NOW, limit=1000)
    await store.close()


@pytest.mark.parametrize("first", range(0, 40, 10))
async def test_rows_and_jobs_agree_in_memory(first: int) -> None:
    await walk("memory://", range(first, first + 10))


async def test_rows_and_jobs_agree_in_a_file(tmp_path: Path) -> None:
    await walk(f"sqlite:///{tmp_path}/jobs.db", range(40, 44))


async def test_rows_and_jobs_agree_in_postgres(postgres: Postgres) -> None:
    await walk(postgres.fresh(), range(44, 48))


async def test_rows_and_jobs_agree_in_redis(redis: Redis) -> None:
    await walk(redis.fresh(), range(48, 52))


async def test_rows_and_jobs_agree_in_a_redis_cluster(redis_cluster: RedisCluster) -> None:
    await walk(f"{redis_cluster.fresh()}&homes=4", range(52, 54))
