"""finished_groups and prunable: which finished jobs may be deleted."""

from __future__ import annotations

from datetime import datetime

import pytest

from ...ids import JobId
from ...records.job import Action, Job, State
from ...records.outcome import Cancel, Discard, Done, RunEnd
from ...records.query import End, Filter
from ...store import Store
from .build import (
    A_MINUTE_LATER,
    NOW,
    REACHABLE,
    Contract,
    act,
    all_jobs,
    claim_job,
    finish_run,
    job_in_state,
    later,
    new_job,
    put,
    start,
)
from .sentences import proves

COMPLETED = State.COMPLETED
ENDS: dict[State, RunEnd] = {COMPLETED: Done(), State.DEAD: Discard(), State.CANCELLED: Cancel()}


async def finished(
    store: Store, *ends: float, state: State = COMPLETED, task: str = "task", queue: str = "a"
) -> list[Job]:
    """Jobs that ended at these times, in seconds after NOW."""
    jobs = [await start(store, task=task, queue=queue) for _ in ends]
    for job, at in zip(jobs, ends, strict=True):
        await finish_run(store, job, ENDS[state], now=later(at))
    return jobs


async def prunable(
    store: Store,
    *,
    keep: int = 0,
    before: datetime = A_MINUTE_LATER,
    limit: int = 100,
    state: State = COMPLETED,
    task: str = "task",
) -> list[JobId]:
    return [job.id for job in await store.prunable(state, task, keep=keep, before=before, limit=limit)]


class PruneContract(Contract):
    # groups

    @proves("P1")
    async def test_an_empty_store_has_no_groups(self) -> None:
        async with self.opened() as store:
            assert await store.finished_groups() == []

    @proves("P1")
    @pytest.mark.parametrize("state", REACHABLE)
    async def test_only_final_states_make_groups(self, state: State) -> None:
        async with self.opened() as store:
            await job_in_state(store, state)
            assert await store.finished_groups() == ([(state, "task")] if state.final else [])

    @proves("P1")
    async def test_groups_list_each_final_state_and_task_once(self) -> None:
        async with self.opened() as store:
            for state, task, queue in ((COMPLETED, "a", "x"), (COMPLETED, "a", "y"), (State.DEAD, "a", "x")):
                await finished(store, 1, 2, state=state, task=task, queue=queue)
            await finished(store, 1, task="b")
            assert sorted(await store.finished_groups()) == [(COMPLETED, "a"), (COMPLETED, "b"), (State.DEAD, "a")]

    @proves("P1")
    async def test_a_group_is_removed_with_its_last_job(self) -> None:
        async with self.opened() as store:
            first, second = await finished(store, 1, 2)
            await act(store, Action.DELETE, first.id)
            assert await store.finished_groups() == [(COMPLETED, "task")]
            await act(store, Action.DELETE, second.id)
            assert await store.finished_groups() == []

    # prunable

    @proves("P2")
    async def test_surplus_jobs_are_listed_by_finished_at(self) -> None:
        async with self.opened() as store:
            jobs = await finished(store, 3, 1, 2, 5, 4)
            assert await prunable(store, before=later(4)) == [jobs[n].id for n in (1, 2, 0)]

    @proves("P2")
    async def test_a_job_that_finished_exactly_at_before_is_not_surplus(self) -> None:
        async with self.opened() as store:
            early, _ = await finished(store, 0.999999, 1)
            assert await prunable(store, before=later(1)) == [early.id]

    @proves("P2")
    @pytest.mark.parametrize("keep", range(6))
    async def test_the_keep_newest_jobs_are_not_surplus(self, keep: int) -> None:
        async with self.opened() as store:
            jobs = await finished(store, 3, 1, 2, 4)
            order = [jobs[n].id for n in (1, 2, 0, 3)]
            assert await prunable(store, keep=keep) == order[: max(0, 4 - keep)]

    @proves("P2")
    @pytest.mark.parametrize(("keep", "before", "left"), [(1, 3, 2), (3, 9, 1), (2, 1, 0), (9, 9, 0), (0, 0, 0)])
    async def test_a_job_is_surplus_only_if_it_is_beyond_keep_and_finished_before(
        self, keep: int, before: float, left: int
    ) -> None:
        async with self.opened() as store:
            jobs = await finished(store, 1, 2, 3, 4)
            assert await prunable(store, keep=keep, before=later(before)) == [job.id for job in jobs[:left]]

    @proves("P2")
    async def test_surplus_jobs_that_finished_together_are_listed_by_id(self) -> None:
        async with self.opened() as store:
            jobs = await finished(store, 1, 1, 1, 1)
            assert await prunable(store, keep=1) == [job.id for job in jobs[:3]]
            assert await prunable(store, keep=1, limit=2) == [job.id for job in jobs[:2]]

    @proves("P2")
    async def test_surplus_keep_counts_across_queues(self) -> None:
        async with self.opened() as store:
            (first,) = await finished(store, 1, queue="b")
            (second,) = await finished(store, 2, queue="a")
            (third,) = await finished(store, 3, queue="c")
            await finished(store, 4, queue="b")
            assert await prunable(store, keep=1) == [first.id, second.id, third.id]

    @proves("P2")
    async def test_surplus_returns_no_more_than_its_limit(self) -> None:
        async with self.opened() as store:
            jobs = await finished(store, 1, 2, 3)
            assert await prunable(store, limit=2) == [jobs[0].id, jobs[1].id]

    @proves("P2")
    async def test_surplus_ignores_other_states_and_tasks(self) -> None:
        async with self.opened() as store:
            (mine,) = await finished(store, 1)
            await finished(store, 5, state=State.DEAD)
            await finished(store, 6, task="other")
            assert await prunable(store) == [mine.id]
            assert await prunable(store, keep=1) == []

    @proves("P2")
    @pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_jobs_of_every_final_state_can_be_surplus(self, state: State) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, state)
            assert await prunable(store, state=state) == [job.id]

    @proves("P2")
    async def test_unfinished_jobs_are_never_surplus(self) -> None:
        async with self.opened() as store:
            for state in (State.PENDING, State.RUNNING, State.PAUSED):
                await job_in_state(store, state)
            await put(store, new_job(expires_at=later(1)))
            for state in State:
                assert await prunable(store, state=state) == []

    @proves("P1", "P2")
    async def test_a_job_that_was_retried_is_not_surplus_any_more(self) -> None:
        async with self.opened() as store:
            (dead,) = await finished(store, 1, state=State.DEAD)
            await act(store, Action.RETRY, dead.id)
            assert await prunable(store, state=State.DEAD) == []
            assert await store.finished_groups() == []

    @proves("P2")
    async def test_surplus_returns_whole_jobs(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.DEAD, tags=("x",), metadata={"a": 1})
            assert await store.prunable(State.DEAD, "task", keep=0, before=later(1), limit=9) == [job]

    @proves("P2")
    async def test_deleting_the_surplus_in_batches_leaves_the_jobs_to_keep(self) -> None:
        async with self.opened() as store:
            jobs = await finished(store, *range(1, 8))
            for left in (2, 2, 1, 0):
                gone = await prunable(store, keep=2, limit=2)
                assert len(gone) == left
                await act(store, Action.DELETE, *gone)
            kept = await store.jobs(Filter(), now=NOW, limit=99)
            assert [job.id for job in kept] == [job.id for job in jobs[5:]]
            assert (await store.overview(now=NOW)).states == {"completed": 2}

    # deleting only the end that was seen

    @proves("J2")
    async def test_a_job_that_ended_again_does_not_match_its_earlier_end(self) -> None:
        async with self.opened() as store:
            again, same = await finished(store, 1, 2, state=State.DEAD)
            seen = {one.id: End(one.finished_at, one.runs) for one in await all_jobs(store)}
            await act(store, Action.RETRY, again.id)
            run = await claim_job(store, again.id)
            await finish_run(store, run, Discard(), now=later(3))
            which = Filter(ids=(again.id, same.id), states=("dead",), ends=seen)
            assert [job.id for job in await store.jobs(which, now=NOW, limit=9)] == [same.id]
            assert (await store.change(Action.DELETE, which, now=NOW, limit=9)).done == [same.id]
            assert [job.id for job in await all_jobs(store)] == [again.id]

    @proves("J2")
    async def test_two_ends_at_the_same_instant_are_distinguished_by_runs(self) -> None:
        async with self.opened() as store:
            (job,) = await finished(store, 1, state=State.DEAD)
            seen = {one.id: End(one.finished_at, one.runs) for one in await all_jobs(store)}
            await act(store, Action.RETRY, job.id)
            await finish_run(store, await claim_job(store, job.id), Discard(), now=later(1))
            which = Filter(ids=(job.id,), ends=seen)
            assert (await store.change(Action.DELETE, which, now=NOW, limit=9)).done == []

    @proves("J2")
    async def test_two_ends_without_a_run_are_distinguished_by_finished_at(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            await act(store, Action.CANCEL, job_id)
            seen = {one.id: End(one.finished_at, one.runs) for one in await all_jobs(store)}
            await act(store, Action.RETRY, job_id, now=later(1))
            await act(store, Action.CANCEL, job_id, now=later(2))
            which = Filter(states=("cancelled",), ends=seen)
            assert (await store.change(Action.DELETE, which, now=NOW, limit=9)).done == []
            assert len(await store.jobs(Filter(), now=NOW, limit=9)) == 1

    @proves("P3")
    async def test_prune_deletes_only_prunable_jobs(self) -> None:
        async with self.opened() as store:
            await finished(store, 1, 2, 3, 4)
            await finished(store, 1, 2, state=State.DEAD)
            await finished(store, 1, task="other")
            for state in (State.PENDING, State.RUNNING, State.PAUSED):
                await job_in_state(store, state)
            before = {job.id for job in await all_jobs(store)}
            may_go = set(await prunable(store, keep=1, before=later(3)))
            pruned = await store.prune({(COMPLETED, "task"): (1, later(3))}, audited_since=NOW, now=later(9))
            gone = before - {job.id for job in await all_jobs(store)}
            assert gone <= may_go
            assert pruned.jobs == len(gone)
