"""Follow-up jobs: the jobs that an accepted outcome enqueues, atomically and once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ...records.job import Action, State
from ...records.outcome import Crashed, Discard, Done, Retry, RunEnd, Snooze, decide
from ...records.query import Filter
from .build import (
    NOW,
    Contract,
    act,
    all_jobs,
    beat,
    claim_ids,
    claim_job,
    finish_run,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves


class FollowUpContract(Contract):
    @proves("F9")
    @pytest.mark.parametrize("ended", [Done(), Retry(5), Snooze(5), Discard()], ids=lambda ended: type(ended).__name__)
    async def test_an_accepted_outcome_enqueues_its_follow_up_jobs(self, ended: Any) -> None:
        async with self.opened() as store:
            job, after = await start(store), (new_job(), new_job(run_at=later(5), tags=("x",)))
            assert await finish_run(store, job, ended, now=later(1), then=after) == {job.id}
            first, second = [await read_job(store, new.id) for new in after]
            assert (first.state, first.run_at, first.created_at) == (State.PENDING, later(1), later(1))
            assert (second.run_at, second.created_at, second.tags) == (later(5), later(1), ("x",))

    @proves("F9")
    async def test_a_follow_up_job_can_be_claimed(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job()
            assert await claim_ids(store) == []
            await finish_run(store, job, Done(), now=later(1), then=(after,))
            assert await claim_ids(store, now=later(1)) == [after.id]

    @proves("F1", "F9")
    async def test_a_refused_outcome_enqueues_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, replace(job, lease="another"), Done(), then=(new_job(),)) == set()
            assert await finish_run(store, job, Crashed("ada", 3), now=NOW, then=(new_job(),)) == set()
            assert await all_jobs(store) == [job]

    @proves("F1", "F9")
    async def test_a_late_outcome_enqueues_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW)
            await finish_run(store, job, Done(), then=(new_job(),))
            assert [found.id for found in await all_jobs(store)] == [job.id]

    @proves("F3", "F9")
    async def test_a_repeated_outcome_enqueues_no_second_follow_up_job(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job()
            decided = replace(decide(job, Done(), now=NOW), then=(after,))
            await store.finish([decided])
            await finish_run(store, await claim_job(store, after.id), Done(), now=NOW)
            await act(store, Action.DELETE, after.id)
            assert await store.finish([decided]) == await store.finish([decided, decided]) == {job.id}
            assert [found.id for found in await all_jobs(store)] == [job.id]

    @proves("F3", "F9")
    async def test_an_outcome_repeated_in_one_call_enqueues_one_follow_up_job(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job()
            decided = [replace(decide(job, Done(), now=NOW), then=(after,)), decide(job, Done(), now=NOW)]
            assert await store.finish(decided) == {job.id}
            assert len(await all_jobs(store)) == 2

    @proves("F5", "F9")
    async def test_each_outcome_of_a_call_enqueues_its_own_follow_up_job(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(4)]
            after = [new_job() for _ in jobs]
            how: list[RunEnd] = [Done(), Retry(5), Done(), Discard()]
            outcomes = [
                replace(decide(job, ended, now=NOW), then=(new,))
                for job, ended, new in zip(jobs, how, after, strict=True)
            ]
            outcomes[2] = replace(outcomes[2], lease="another")
            assert await store.finish(outcomes) == {jobs[n].id for n in (0, 1, 3)}
            found = await store.jobs(Filter(ids=tuple(new.id for new in after)), now=NOW, limit=9)
            assert [job.id for job in found] == [after[n].id for n in (0, 1, 3)]

    # keys

    @proves("E6", "F9")
    async def test_the_key_of_an_ended_job_is_free_for_its_follow_up_job(self) -> None:
        async with self.opened() as store:
            job, after = await start(store, unique_key="key"), new_job(unique_key="key")
            await finish_run(store, job, Done(), then=(after,))
            assert (await read_job(store, after.id)).state is State.PENDING

    @proves("F9")
    async def test_an_outcome_is_accepted_even_if_the_key_of_its_follow_up_job_is_held(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key", run_at=later(30)))
            job = await start(store)
            assert await finish_run(store, job, Done(), then=(new_job(unique_key="key"),)) == {job.id}
            assert [found.id for found in await all_jobs(store)] == [holder, job.id]

    @proves("F9")
    async def test_follow_up_jobs_are_all_enqueued_or_none(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key", run_at=later(30)))
            job = await start(store)
            after = (new_job(), new_job(unique_key="key", on_conflict="raise"), new_job())
            assert await finish_run(store, job, Done(), then=after) == {job.id}
            assert [found.id for found in await all_jobs(store)] == [holder, job.id]
            assert (await read_job(store, job.id)).state is State.COMPLETED

    @proves("F5", "F9")
    async def test_outcomes_of_a_call_are_applied_in_order_with_their_follow_up_jobs(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store, unique_key="key")
            early, late = new_job(unique_key="key"), new_job(unique_key="key")
            outcomes = [
                replace(decide(first, Done(), now=NOW), then=(early,)),
                replace(decide(second, Done(), now=NOW), then=(late,)),
            ]
            await store.finish(outcomes)
            assert [found.id for found in await all_jobs(store)] == [first.id, second.id, late.id]
