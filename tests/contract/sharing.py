"""Several handles and processes on one store; the contract itself uses one handle."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mainspring.records.circuit import Breaker
from mainspring.records.job import Action, Job, State
from mainspring.records.outcome import Done, Policy, Suspend
from mainspring.records.plan import Input, Plan, StepOptions, ValueOf
from mainspring.store import Store
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    a_schedule,
    act,
    all_jobs,
    beat,
    claim,
    claim_ids,
    finish_run,
    fire,
    job_in_state,
    later,
    launch,
    new_job,
    put,
    read_schedule,
    start,
)
from mainspring.testing.contract.flow import a_step, begin, flows_of, row_of, run, run_step, steps_of
from mainspring.testing.contract.growth import growing

CLAIMER = Path(__file__).with_name("claimer.py")


# Flows with a map of two items; the suite can play more.
RACES = int(os.environ.get("MAINSPRING_TEST_RACES", "100"))
PAIR = Plan(
    (
        a_step("item", over=Input(0), item="n"),
        a_step("sum", args={"all": ValueOf(0)}, options=StepOptions(queue="end")),
    ),
    ("[1,2]",),
)


async def end_last_items_at_once(left: Store, right: Store) -> None:
    """Two workers end the last two items of a map in the same instant, again and again: one step follows each time."""
    flows = await put(left, *(new_job(plan=PAIR, task="flow") for _ in range(RACES)))
    await beat(left)
    pairs: dict[str, list[Job]] = {}
    while jobs := (await claim(left, tasks=["item"], limit=1000)).jobs:
        for job in jobs:
            assert job.step is not None
            pairs.setdefault(job.step.flow, []).append(job)
    assert sorted(pairs) == sorted(flows)
    for one, other in pairs.values():
        await asyncio.gather(finish_run(left, one, Done("1"), now=NOW), finish_run(right, other, Done("2"), now=NOW))
    released = Counter[str]()
    while jobs := (await claim(left, tasks=["sum"], queues=["end"], limit=1000)).jobs:
        released.update(job.step.flow for job in jobs if job.step is not None)
    assert released == dict.fromkeys(flows, 1)
    for n in range(0, RACES, 100):
        rows = [found.row for found in await flows_of(right).flows(flows[n : n + 100])]
        assert {row.statuses for row in rows} == {"cr"}
        assert {(row.counts[0].made, row.counts[0].ended) for row in rows} == {(2, 2)}


class Sharing(Contract):
    url: str

    async def test_a_plan_that_one_handle_lets_grow_is_known_to_the_other(self) -> None:
        async with self.opened() as left, self.opened() as right:
            id = await begin(left, growing("s0"))
            for n in range(4):
                one, other = (left, right) if n % 2 else (right, left)
                await run_step(one, id, n, Done())  # which remembers the plan with so many steps
                await run(other, id, Suspend(growing(f"s{n + 1}")))
            assert (await row_of(right, id)).statuses == "ccccr"
            assert [job.task for job in await steps_of(left, id)] == ["s0", "s1", "s2", "s3", "s4"]

    async def test_jobs_queues_and_workers_survive_reopening_the_store(self) -> None:
        async with self.opened() as store:
            await start(store, unique_key="key", metadata={"a": 1}, tags=('a "b" \\', "{é}"))
            await store.pause_queue("mail", True)
            jobs, queues, workers = (
                await all_jobs(store),
                (await store.overview(now=NOW)).queues,
                await store.workers(now=NOW),
            )
        async with self.opened() as again:
            assert await all_jobs(again) == jobs
            assert (await again.overview(now=NOW)).queues == queues
            assert await again.workers(now=NOW) == workers

    async def test_two_workers_that_end_the_last_items_of_a_map_at_once_release_what_follows_once(self) -> None:
        async with self.opened() as left, self.opened() as right:
            await end_last_items_at_once(left, right)

    async def test_two_handles_never_share_a_job(self) -> None:
        async with self.opened() as left, self.opened() as right:
            ids = await put(left, *(new_job(task=f"task{n % 3}", priority=n % 2) for n in range(200)))
            names = [f"worker-{n}" for n in range(10)]
            pairs = zip([left, right] * 5, names, strict=True)
            tasks = ["task0", "task1", "task2"]

            async def all_due(store: Store, name: str) -> list[str]:
                taken = await claim_ids(store, name, limit=7, tasks=tasks)
                while (answer := await claim(store, name, limit=7, tasks=tasks)).jobs or answer.next_at:
                    taken += [job.id for job in answer.jobs]
                return taken

            taken = await asyncio.gather(*(all_due(store, name) for store, name in pairs))
            assert sorted(job_id for batch in taken for job_id in batch) == ids

    async def test_fifty_callers_on_two_handles_with_one_key_make_one_row(self) -> None:
        async with self.opened() as left, self.opened() as right:
            jobs = [new_job(unique_key="key") for _ in range(50)]
            pairs = zip([left, right] * 25, jobs, strict=True)
            answers = await asyncio.gather(*(store.enqueue([job], now=NOW) for store, job in pairs))
            (only,) = await all_jobs(left)
            assert {answer.id for (answer,) in answers} == {only.id}

    async def test_a_unique_key_has_one_holder_after_a_retry_and_a_concurrent_enqueue(self) -> None:
        async with self.opened() as left, self.opened() as right:
            dead = [await job_in_state(left, State.DEAD, unique_key=f"key{n}") for n in range(20)]
            retries = [act(left, Action.RETRY, job.id) for job in dead]
            others = [right.enqueue([new_job(unique_key=job.unique_key)], now=NOW) for job in dead]
            await asyncio.gather(*(call for pair in zip(retries, others, strict=True) for call in pair))
            held = [job.unique_key for job in await all_jobs(left) if not job.state.final]
            assert sorted(map(str, held)) == sorted(str(job.unique_key) for job in dead)

    async def test_concurrent_failures_are_all_counted_by_the_circuit(self) -> None:
        async with self.opened() as left, self.opened() as right:
            await put(left, *(new_job() for _ in range(20)))
            await beat(left)
            runs = (await claim(left, limit=20)).jobs
            policy = Policy(max_retries=0, breaker=Breaker(99, 10.0))
            pairs = zip([left, right] * 10, runs, strict=True)
            await asyncio.gather(*(finish_run(store, run, OSError(), policy=policy) for store, run in pairs))
            assert [circuit.failures for circuit in (await left.overview(now=NOW)).circuits] == [20]

    async def test_concurrent_fires_of_a_schedule_fire_it_once(self) -> None:
        async with self.opened() as left, self.opened() as right:
            fired = await asyncio.gather(*(fire(store, a_schedule()) for store in [left, right] * 10))
            assert sum(one.stands for one in fired) == 1

    async def test_concurrent_candidates_elect_one_leader(self) -> None:
        async with self.opened() as left, self.opened() as right:
            asked = [
                store.acquire_term("x", f"h{n}", until=later(9), now=NOW) for n, store in enumerate([left, right] * 10)
            ]
            answers = await asyncio.gather(*asked)
            assert len({(answer.holder, answer.term) for answer in answers}) == 1

    async def test_concurrent_finish_and_cancel_count_every_run_of_a_schedule(self) -> None:
        async with self.opened() as left, self.opened() as right, asyncio.timeout(20):
            schedule, ids = await launch(left, spec={"overlap": "allow"}, jobs=20)
            await beat(left)
            jobs = (await claim(left, limit=20)).jobs
            ends = [finish_run(left, job, Done()) for job in jobs]
            cancels = [act(right, Action.CANCEL, *reversed(ids)) for _ in range(5)]
            await asyncio.gather(*ends, *cancels)
            assert {job.state for job in await all_jobs(left)} == {State.COMPLETED}
            assert (await read_schedule(left)).completed == schedule.completed + 20

    async def test_an_idle_handle_claims_a_job_that_another_handle_enqueued(self) -> None:
        async with self.opened() as left, self.opened() as right:
            await beat(left)
            assert (await claim(left)).jobs == (await claim(left)).jobs == []
            (job_id,) = await put(right, new_job())
            assert [job.id for job in (await claim(left)).jobs] == [job_id]

    async def test_wait_ends_when_another_handle_enqueues(self) -> None:
        async with self.opened() as left, self.opened() as right, asyncio.timeout(5):
            await left.wait("claimable", 50)  # ends when it begins to listen
            waiting = asyncio.create_task(left.wait("claimable", 50))
            while not waiting.done():
                await put(right, new_job())
                await asyncio.wait([waiting], timeout=0.02)

    async def test_wait_final_ends_when_another_handle_finishes_a_job(self) -> None:
        async with self.opened() as left, self.opened() as right, asyncio.timeout(5):
            await left.wait("final", 50)  # ends when it begins to listen
            waiting = asyncio.create_task(left.wait("final", 50))
            while not waiting.done():
                await finish_run(right, await start(right), Done())
                await asyncio.wait([waiting], timeout=0.02)

    def test_concurrent_processes_claim_each_job_once(self, tmp_path: Path) -> None:
        async def fill() -> list[str]:
            async with self.opened() as store:
                return await put(store, *(new_job() for _ in range(1000)))

        ids = asyncio.run(fill())
        command = [sys.executable, str(CLAIMER), self.url]
        claimers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) for _ in range(3)]
        taken = [line for claimer in claimers for line in claimer.communicate(timeout=60)[0].split()]
        assert [claimer.returncode for claimer in claimers] == [0, 0, 0]
        assert sorted(taken) == ids
