"""executions: one record for every run that has ended, whatever its ending."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ...records.job import Action, State
from ...records.outcome import Discard, Done, Released, Retry, Snooze, decide
from ...records.run import Ending, Items, RunNotes, Usage
from .build import NOW, Contract, act, claim_job, finish_run, job_in_state, later, new_job, put, read_job, start
from .finish import FAILURE, ending_name, outcome
from .sentences import proves

NOTES = RunNotes(Items(3, 1, 2), Usage(0.25, 1 << 30), {"é": [1, None]})


class ExecutionContract(Contract):
    @proves("F6", "X2")
    async def test_an_execution_describes_its_run(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            decided = outcome(job, State.DEAD, Ending.TIMEOUT, failure=FAILURE, finished_at=later(2.000001))
            await store.finish([decided])
            (row,) = await store.executions(job.id)
            assert (row.job_id, row.number, row.attempt, row.ending) == (job.id, 1, 1, Ending.TIMEOUT)
            assert (row.worker, row.lease, row.failure) == ("ada", job.lease, FAILURE)
            assert (row.started_at, row.finished_at) == (NOW, later(2.000001))

    @proves("F6", "X2")
    async def test_executions_are_numbered_by_run_not_by_attempt(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            for ended in (Snooze(0), Retry(0), Released(), Done()):
                await finish_run(store, await claim_job(store, job_id), ended, now=NOW)
            rows = await store.executions(job_id)
            assert [row.number for row in rows] == [1, 2, 3, 4]
            assert [row.attempt for row in rows] == [1, 1, 2, 2]
            endings = [Ending.SNOOZED, Ending.FAILED, Ending.RELEASED, Ending.COMPLETED]
            assert [row.ending for row in rows] == endings

    @proves("X1")
    @pytest.mark.parametrize("last", [Done(), Discard("no"), None], ids=str)
    async def test_executions_are_paged_by_number(self, last: Any) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            for ended in (Snooze(0), Snooze(0), Released(), Snooze(0), *([last] if last else [])):
                await finish_run(store, await claim_job(store, job_id), ended, now=NOW)
            if last is None:
                await claim_job(store, job_id)
            rows = await store.executions(job_id)
            for after in range(7):
                beyond = [row for row in rows if row.number > after]
                assert await store.executions(job_id, after=after) == beyond
                for limit in (1, 2, 4, 9):
                    assert await store.executions(job_id, after=after, limit=limit) == beyond[:limit]

    @proves("X2")
    async def test_execution_numbers_continue_after_a_retry_by_an_operator(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.DEAD)
            await act(store, Action.RETRY, job.id)
            await finish_run(store, await claim_job(store, job.id), Done(), now=NOW)
            rows = await store.executions(job.id)
            assert [(row.number, row.attempt) for row in rows] == [(1, 1), (2, 1)]

    @proves("X1")
    async def test_a_running_job_has_no_execution_yet(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await store.executions(job.id) == []

    @proves("V11")
    async def test_an_unknown_job_has_no_executions(self) -> None:
        async with self.opened() as store:
            assert await store.executions(new_job().id) == []

    @proves("X1")
    async def test_executions_of_one_job_are_not_mixed_with_anothers(self) -> None:
        async with self.opened() as store:
            first = await job_in_state(store, State.COMPLETED)
            await job_in_state(store, State.DEAD)
            assert [row.job_id for row in await store.executions(first.id)] == [first.id]

    @proves("X1")
    async def test_executions_of_several_jobs_are_by_id_and_number(self) -> None:
        async with self.opened() as store:
            jobs = [
                await job_in_state(store, state, queue=f"q{n}") for n, state in enumerate([State.COMPLETED, State.DEAD])
            ]
            running, unknown = await start(store), new_job().id
            for job in jobs[1:]:
                await act(store, Action.RETRY, job.id)
                await finish_run(store, await claim_job(store, job.id), Done(), now=NOW)
            await job_in_state(store, State.COMPLETED)
            ids = [unknown, jobs[1].id, running.id, jobs[0].id, jobs[1].id]
            rows = await store.executions(ids)
            assert rows == [*await store.executions(jobs[0].id), *await store.executions(jobs[1].id)]
            assert [(row.job_id, row.number) for row in rows] == [
                (jobs[0].id, 1),
                (jobs[1].id, 1),
                (jobs[1].id, 2),
            ]
            assert await store.executions([]) == []

    @proves("X2")
    @pytest.mark.parametrize(("result", "size"), [(None, 0), ("", 0), ("null", 4), ('"é🕰"', 8)])
    async def test_a_result_is_measured_in_bytes_of_utf8(self, result: str | None, size: int) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Done(result))
            assert [row.result_size for row in await store.executions(job.id)] == [size]

    @proves("F6")
    @pytest.mark.parametrize("ending", Ending)
    async def test_every_ending_is_recorded_by_its_execution(self, ending: Ending) -> None:
        async with self.opened() as store:
            job = await start(store)
            await store.finish([outcome(job, State.DEAD, ending)])
            assert [row.ending for row in await store.executions(job.id)] == [ending]

    # run notes

    @proves("X2")
    @pytest.mark.parametrize("ended", [Done('"x"'), Retry(5), Discard(), Snooze(5)], ids=ending_name)
    async def test_run_notes_are_kept_with_their_run(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, ended, account=NOTES)
            (row,) = await store.executions(job.id)
            assert (row.items, row.usage, row.metadata) == (NOTES.items, NOTES.usage, NOTES.metadata)

    @proves("X2")
    async def test_a_run_without_notes_has_none(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0), now=NOW, account=NOTES)
            await finish_run(store, await claim_job(store, job.id), Done(), now=NOW)
            _, last = await store.executions(job.id)
            assert (last.items, last.usage, last.metadata) == (None, None, {})

    @proves("X2")
    async def test_a_later_run_with_notes_keeps_its_number(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Released(), now=NOW)
            await finish_run(store, await claim_job(store, job.id), Done('"x"'), account=NOTES)
            first, last = await store.executions(job.id)
            assert (first.number, first.ending) == (1, Ending.RELEASED)
            assert (last.number, last.attempt, last.ending, last.usage) == (2, 1, Ending.COMPLETED, NOTES.usage)

    @proves("F1", "F6")
    async def test_a_refused_run_leaves_no_notes(self) -> None:
        """Also in a batch with runs that are accepted, with notes and without."""
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(4)]
            late, *others = (decide(job, Done(), now=later(1), account=NOTES) for job in jobs)
            late = replace(late, lease="another")
            assert await store.finish([late]) == set()
            plain = replace(others[0], account=None)
            accepted = await store.finish([late, plain, *others[1:]])
            assert accepted == {plain.id, *(other.id for other in others[1:])}
            runs = {job.id: await store.executions(job.id) for job in jobs}
            assert [[run.usage for run in runs[job.id]] for job in jobs] == [[], [None], [NOTES.usage], [NOTES.usage]]
            still = await read_job(store, late.id)
            assert (still.state, still.lease) == (State.RUNNING, jobs[0].lease)

    @proves("F3")
    async def test_a_repeated_outcome_with_run_notes_is_acknowledged(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            for _ in range(2):
                assert await finish_run(store, job, Done('"x"'), account=NOTES) == {job.id}
            (row,) = await store.executions(job.id)
            assert (row.ending, row.result_size) == (Ending.COMPLETED, 3)
