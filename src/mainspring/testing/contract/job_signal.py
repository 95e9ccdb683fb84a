"""Signals of jobs that have no plan, and waits for them."""

from __future__ import annotations

import asyncio

import pytest

from ...ids import JobId
from ...records.flow import FLOW_DEADLINE, AwaitedSignal, GiveSignal, SkipStep, TimeOut
from ...records.job import Action, Job, State
from ...records.outcome import Done, Suspend
from ...records.plan import NO_STEPS, Plan
from ...records.query import Filter, Refusal
from ...store import Store
from .build import (
    NOW,
    Contract,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .flow import DEAD, a_step, begin, flows_of, row_of, run, step_job
from .sentences import proves

YES = '{"ok":true,"by":"ada"}'


async def give(
    store: Store, id: JobId, name: str = "approval", value: str = YES, delivery: str = "d1"
) -> Refusal | None:
    return await flows_of(store).change_flow(id, GiveSignal(name, value, delivery), now=NOW)


async def answer(store: Store, id: JobId, name: str = "approval", delivery: str = "d2") -> str:
    """What a further delivery is told."""
    refusal = await give(store, id, name, "1", delivery)
    return "given" if refusal is None else str(refusal.signal)


async def deadlines(store: Store) -> list[Job]:
    return [job for job in await all_jobs(store) if job.task == FLOW_DEADLINE and not job.state.final]


async def time_out(store: Store, id: JobId) -> None:
    """Runs the job of the only deadline when that has come."""
    (due,) = await deadlines(store)
    await beat(store, until=later(100_000))
    (job,) = (await claim(store, tasks=[FLOW_DEADLINE], now=due.run_at)).jobs
    assert await flows_of(store).change_flow(id, TimeOut(job.id), now=due.run_at) is None
    await finish_run(store, job, Done(), now=due.run_at)


async def claim_later(store: Store) -> Job:
    """The job that is due after the timeout."""
    await beat(store, until=later(100_000))
    (job,) = (await claim(store, now=later(60))).jobs
    return job


async def wait(store: Store, *awaits: AwaitedSignal) -> JobId:
    """A job without a plan that waits for these signals."""
    job = await start(store)
    assert await finish_run(store, job, Suspend(awaits=awaits), now=NOW) == {job.id}
    return job.id


class JobSignalContract(Contract):
    @proves("FL19", "FL12")
    async def test_a_job_keeps_signals_of_every_name_until_it_ends(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job())
            assert await give(store, id, "one") is None
            job = await claim_job(store, id)
            assert await give(store, id, "two") is None
            (found,) = await flows_of(store).flows([id])
            assert (list(found.row.inbox), found.row.planned, found.plan) == (["one", "two"], False, NO_STEPS)
            assert await finish_run(store, job, Done("1"), now=NOW) == {id}
            assert (await read_job(store, id)).state is State.COMPLETED
            assert await answer(store, id, "three") == "late"

    @proves("FL20")
    async def test_a_job_waits_for_a_signal_without_a_lease_and_is_due_when_it_comes(self) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("approval"))
            job = await read_job(store, id)
            assert (job.state, job.lease, job.attempt) == (State.WAITING, None, 0)
            assert await give(store, id, "other") is None
            assert (await read_job(store, id)).state is State.WAITING
            assert await give(store, id) is None
            job = await read_job(store, id)
            assert (job.state, job.run_at) == (State.PENDING, NOW)
            assert (await row_of(store, id)).waits == {}

    @proves("FL20")
    async def test_a_signal_that_comes_before_the_job_waits_is_not_lost(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await give(store, job.id) is None
            await finish_run(store, job, Suspend(awaits=(AwaitedSignal("approval", later(60)),)), now=NOW)
            assert (await read_job(store, job.id)).state is State.PENDING
            assert ((await row_of(store, job.id)).waits, await deadlines(store)) == ({}, [])

    @proves("FL20")
    async def test_a_signal_and_the_waiting_for_it_at_the_same_time_wake_the_job(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(20)))
            await beat(store)
            jobs = {job.id: job for job in (await claim(store, limit=20)).jobs}
            suspend = Suspend(awaits=(AwaitedSignal("approval"),))
            await asyncio.gather(
                *(finish_run(store, jobs[id], suspend, now=NOW) for id in ids), *(give(store, id) for id in ids)
            )
            assert {(await read_job(store, id)).state for id in ids} == {State.PENDING}

    @proves("FL20")
    async def test_a_job_goes_on_at_the_deadline_of_its_signal(self) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("approval", later(60)))
            assert [job.run_at for job in await deadlines(store)] == [later(60)]
            await time_out(store, id)
            row = await row_of(store, id)
            assert ((await read_job(store, id)).state, row.late, row.waits) == (State.PENDING, ("approval",), {})
            assert await answer(store, id) == "late"
            job = await claim_later(store)
            await finish_run(store, job, Suspend(awaits=(AwaitedSignal("approval", later(200)),)), now=later(61))
            assert (await read_job(store, id)).state is State.PENDING  # a timeout stays a timeout
            assert await deadlines(store) == []

    @proves("FL20")
    async def test_a_signal_that_is_waited_for_again_keeps_its_deadline(self) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("a", later(60)), AwaitedSignal("b"))
            first = await deadlines(store)
            assert await give(store, id, "b") is None
            job = await claim_job(store, id)
            await finish_run(store, job, Suspend(awaits=(AwaitedSignal("a", later(90)),)), now=NOW)
            assert await deadlines(store) == first
            assert await give(store, id, "a") is None
            assert ((await read_job(store, id)).state, await deadlines(store)) == (State.PENDING, [])

    @proves("FL20")
    async def test_a_job_that_waits_for_nothing_is_due(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await give(store, job.id) is None
            await finish_run(store, job, Suspend(), now=NOW)
            assert (await read_job(store, job.id)).state is State.PENDING

    @proves("FL21")
    async def test_a_waiting_job_without_a_plan_is_cancelled_at_once(self) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("approval", later(60)))
            await act(store, Action.CANCEL, id, reason="no")
            job = await read_job(store, id)
            assert (job.state, job.cancel_reason, await deadlines(store)) == (State.CANCELLED, "no", [])
            assert await answer(store, id) == "late"

    @proves("A12")
    @pytest.mark.parametrize("action", [Action.CANCEL, Action.PAUSE, Action.DELETE])
    async def test_a_change_of_all_jobs_leaves_the_deadline_of_a_signal(self, action: Action) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("approval", later(60)))
            (before,) = await deadlines(store)
            changed = await store.change(action, Filter(tasks=(FLOW_DEADLINE,)), now=NOW, limit=10)
            assert changed.done == []
            assert "as its deadline" in (changed.refused[before.id].error or "")
            assert await deadlines(store) == [before]
            await time_out(store, id)
            assert (await read_job(store, id)).state is State.PENDING
            (after,) = await store.jobs(Filter(tasks=(FLOW_DEADLINE,)), now=NOW, limit=2)
            assert (await act(store, Action.DELETE, after.id)).done == [after.id]

    @proves("FL21")
    async def test_a_job_without_a_plan_that_is_a_step_ends_its_step_when_it_is_cancelled(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, Plan((a_step("a"), a_step("b", after=(0,)))))
            inner = (await step_job(store, outer, 0)).id
            await run(store, inner, Suspend(awaits=(AwaitedSignal("approval", later(60)),)))
            assert (await row_of(store, outer)).statuses == "rw"
            await act(store, Action.CANCEL, outer, reason="no")
            assert (await read_job(store, inner)).state is State.CANCELLED
            assert ((await row_of(store, outer)).statuses, await deadlines(store)) == ("xx", [])

    @proves("FL21")
    async def test_a_job_without_a_plan_is_retried_as_any_other_and_keeps_its_signals(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await give(store, job.id) is None
            await finish_run(store, job, ValueError("no"), now=NOW, policy=DEAD)
            await act(store, Action.RETRY, job.id)
            assert (await read_job(store, job.id)).state is State.PENDING
            assert list((await row_of(store, job.id)).inbox) == ["approval"]
            refusal = await flows_of(store).change_flow(job.id, SkipStep(0, ""), now=NOW)
            assert refusal is not None
            assert "has no flow" in (refusal.error or "")

    @proves("FL21", "FL10")
    async def test_deleting_a_job_without_a_plan_deletes_its_row(self) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("approval", later(60)))
            await act(store, Action.DELETE, id)
            assert (await all_jobs(store), await flows_of(store).flows([id])) == ([], [])
