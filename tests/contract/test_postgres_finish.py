"""A finish of plain completions in one statement: each job gets its own end, and the fence holds for each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from test_postgres_documents import waits
from test_postgres_schedules import statements

from mainspring.records.job import Job, State
from mainspring.records.outcome import Done, Outcome, Policy, decide
from mainspring.records.run import RunReport
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import completions
from mainspring.stores.postgres.pool import SEPARATOR
from mainspring.testing.contract.build import Contract, all_jobs, beat, claim, later, new_job, put, read_job, start
from mainspring.testing.contract.checkpoint import a_checkpoint, checkpoints, keep
from servers import Postgres


def completed(job: Job, n: int = 1, result: str | None = None) -> Outcome:
    return decide(job, Done(result), now=later(n), policy=Policy(0))


async def claimed_by_two(store: Store, count: int) -> list[Job]:
    """Jobs of two claims, in an order that is neither that of their ids nor that of their claims."""
    await put(store, *(new_job() for _ in range(count)))
    await beat(store)
    jobs = [job for _ in range(2) for job in (await claim(store, limit=count // 2)).jobs]
    random.Random(1).shuffle(jobs)
    return jobs


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestBatches(Served):
    @pytest.mark.parametrize("results", [False, True])
    async def test_each_job_gets_its_own_end_and_result(self, monkeypatch: pytest.MonkeyPatch, results: bool) -> None:
        async with self.opened() as store:
            jobs = await claimed_by_two(store, 40)
            outcomes = {job.id: completed(job, n, str(n) if results and n % 3 else None) for n, job in enumerate(jobs)}

            def refuse(*_: Any) -> None:
                raise AssertionError("the batch takes a transaction")

            with monkeypatch.context() as patch:
                patch.setattr(store, "_transact", refuse)
                assert await store.finish([*outcomes.values()]) == set(outcomes)
            for job in await all_jobs(store):
                assert (job.finished_at, job.result) == (outcomes[job.id].finished_at, outcomes[job.id].result)

    async def test_a_job_that_runs_under_another_lease_of_the_batch_runs_on(self) -> None:
        async with self.opened() as store:
            first, *others = await claimed_by_two(store, 40)
            lease = next(job.lease for job in others if job.lease != first.lease)
            outcomes = [completed(replace(first, lease=lease)), *map(completed, others)]
            assert await store.finish(outcomes) == {job.id for job in others}
            assert (await read_job(store, first.id)).state is State.RUNNING

    async def test_two_jobs_that_swap_their_leases_run_on(self) -> None:
        async with self.opened() as store:
            first, *others = await claimed_by_two(store, 40)
            second = next(job for job in others if job.lease != first.lease)
            others.remove(second)
            late = [replace(first, lease=second.lease), replace(second, lease=first.lease)]
            assert await store.finish([*map(completed, late), *map(completed, others)]) == {job.id for job in others}
            assert {job.state for job in [await read_job(store, job.id) for job in late]} == {State.RUNNING}

    async def test_a_batch_whose_rows_come_in_another_order_is_written_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The ends are sent in the order of the ids. If the server returned the rows in another one, each would have
        the end of another job: the statement refuses that, and a transaction writes the batch."""
        columns = completions._outcome_columns

        def reversed_columns(outcomes: Sequence[Outcome]) -> tuple[str | None, ...]:
            ids, ends, *others = columns(outcomes)
            return *(SEPARATOR.join(text.split(SEPARATOR)[::-1]) for text in (ids, ends)), *others

        monkeypatch.setattr(completions, "_outcome_columns", reversed_columns)
        async with self.opened() as store:
            outcomes = {job.id: completed(job, n) for n, job in enumerate(await claimed_by_two(store, 40))}
            assert await store.finish([*outcomes.values()]) == set(outcomes)
            for job in await all_jobs(store):
                assert job.finished_at == outcomes[job.id].finished_at


class TestCheckpoints(Served):
    """A report of checkpoints in one statement, which is fenced by the lease like every other."""

    @pytest.mark.parametrize(
        "change", ["lease = 'of the next run'", "state = 'pending', lease = NULL", "lease = lease"], ids=str.split
    )
    async def test_a_report_waits_for_what_changes_its_job_and_looks_at_the_job_again(self, change: str) -> None:
        async with self.opened() as store, asyncio.timeout(20):
            job = await start(store)
            other = await asyncpg.connect(self.server.dsn)
            async with other.transaction():
                await other.execute(f"UPDATE fresh.mainspring_jobs SET {change} WHERE id = $1", job.id)
                keeping = asyncio.create_task(keep(store, job, a_checkpoint(1)))
                waited = await waits(self.server, keeping)
            still_holds = change == "lease = lease"
            assert (waited, await keeping) == (True, still_holds)
            assert len(await checkpoints(store, job.id)) == still_holds
            await other.close()

    async def test_a_report_is_one_statement_for_any_number_of_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with self.opened() as store:
            jobs = await claimed_by_two(store, 40)
            kept = (a_checkpoint(1), a_checkpoint(2))
            reports = [RunReport(id=job.id, lease=job.lease or "", checkpoints=kept) for job in jobs]
            with statements(monkeypatch) as sent:
                assert await store.report(reports) == {job.id for job in jobs}
            assert len(sent) == 1
            for job in jobs:
                assert await checkpoints(store, job.id) == [*kept]
