"""Batches: flows whose first step has jobs that are added from outside, until it is closed."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from ...ids import JobId
from ...records.flow import CLOSE_BATCH, CloseBatch
from ...records.job import Action, Job, NewJob, State
from ...records.outcome import Cancel, Discard, Done, Retry, RunEnd, Snooze
from ...records.plan import ListOf, Plan, PlannedStep, StepOptions, ValueOf
from ...records.query import Refusal
from ...records.step import NEXT_INDEX, StepRef, position_of
from ...store import FlowStore, Store
from .build import NOW, Contract, act, all_jobs, claim_job, finish_run, later, new_job, put, read_job
from .sentences import proves

OPEN_SECONDS = 600.0
LETTERS = Plan(
    (
        PlannedStep("jobs", "", over=ListOf(()), open_seconds=OPEN_SECONDS),
        PlannedStep("on_failure", "alert", after=(0,), on="failure", summary="summary"),
        PlannedStep("on_success", "report", after=(0,), summary="summary", options=StepOptions(queue="other")),
        PlannedStep("on_complete", "tidy", after=(0,), on="end"),
    ),
    ('"letters"', '{"issue":7}'),
)


async def a_batch(store: Store, plan: Plan = LETTERS) -> JobId:
    (id,) = await put(store, new_job(plan=plan))
    return id


def a_job(batch: JobId, **fields: object) -> NewJob:
    return new_job(step=StepRef(batch, position_of(0, NEXT_INDEX), "default"), **fields)


async def add(store: Store, batch: JobId, *jobs: NewJob) -> list[str]:
    return [answer.status for answer in await store.enqueue(jobs or [a_job(batch)], now=NOW)]


async def close(store: Store, batch: JobId, abandoned_at: int | None = None) -> Refusal | None:
    return await _flows(store).change_flow(batch, CloseBatch(abandoned_at), now=NOW)


def _flows(store: Store) -> FlowStore:
    assert store.capabilities.flows
    return store  # type: ignore[return-value]


async def statuses(store: Store, batch: JobId) -> str:
    (found,) = await _flows(store).flows([batch])
    return found.row.statuses


async def counted(store: Store, batch: JobId) -> tuple[int, int, int, int]:
    (found,) = await _flows(store).flows([batch])
    counts = found.row.counts[0]
    return counts.made, counts.ended, counts.dead, counts.cancelled


async def jobs_of(store: Store, batch: JobId, number: int = 0) -> list[Job]:
    first, last = position_of(number), position_of(number + 1) - 1
    return [
        job
        for job in await _flows(store).step_jobs(batch, first=0, last=(1 << 63) - 1, limit=5000)
        if job.step is not None and first <= job.step.position & ((1 << 56) - 1) <= last
    ]


async def end(store: Store, job: Job, ended: RunEnd) -> None:
    run = await read_job(store, job.id)
    if run.state is not State.RUNNING:  # else it was claimed with another one
        run = await claim_job(store, job.id, tasks=[job.task])
    assert await finish_run(store, run, ended, now=NOW) == {job.id}


async def closing_jobs(store: Store) -> list[Job]:
    return [job for job in await all_jobs(store) if job.task == CLOSE_BATCH and not job.state.final]


class BatchContract(Contract):
    @proves("A12", "BA4")
    async def test_a_cancel_of_all_jobs_leaves_the_deadline_of_a_batch(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            (closing,) = before = await closing_jobs(store)
            assert (await act(store, Action.CANCEL, closing.id)).done == []
            assert await closing_jobs(store) == before
            await act(store, Action.DELETE, batch)
            assert await closing_jobs(store) == []

    # adding jobs

    @proves("BA1")
    async def test_jobs_of_any_task_are_numbered_and_counted(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            assert (
                await add(store, batch, a_job(batch), a_job(batch, task="other", queue="slow", priority=3))
                == ["new"] * 2
            )
            assert await add(store, batch, a_job(batch, run_at=later(60), tags=("t",))) == ["new"]
            jobs = await jobs_of(store, batch)
            assert [job.step and job.step.index for job in jobs] == [1, 2, 3]
            assert [(job.task, job.queue) for job in jobs] == [
                ("task", "default"),
                ("other", "slow"),
                ("task", "default"),
            ]
            assert (jobs[2].run_at, jobs[2].tags) == (later(60), ("t",))
            assert (await counted(store, batch), await statuses(store, batch)) == ((3, 0, 0, 0), "rwww")

    @proves("BA1")
    async def test_a_repeated_page_and_a_job_that_meets_its_key_add_nothing(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            page = [a_job(batch), a_job(batch)]
            await add(store, batch, *page)
            assert await add(store, batch, *page, a_job(batch)) == ["new"] * 3
            assert await add(store, batch, a_job(batch, unique_key="k")) == ["new"]
            assert await add(store, batch, a_job(batch, unique_key="k"), a_job(batch)) == ["duplicate", "new"]
            assert [job.step and job.step.index for job in await jobs_of(store, batch)] == [1, 2, 3, 4, 5]
            assert await counted(store, batch) == (5, 0, 0, 0)

    @proves("BA1")
    async def test_large_pages_that_overlap_are_numbered_without_a_gap(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            page = [a_job(batch, payload=f"{n}", tags=("t",) if n % 2 else ()) for n in range(250)]
            for some in (page[:150], page[:150], page[100:]):
                assert await add(store, batch, *some) == ["new"] * len(some)
            jobs = await jobs_of(store, batch)
            assert [job.step and job.step.index for job in jobs] == list(range(1, 251))
            assert {(job.id, job.payload, job.tags) for job in jobs} == {
                (one.id, one.payload, one.tags) for one in page
            }
            assert await counted(store, batch) == (250, 0, 0, 0)
            await close(store, batch)
            await act(store, Action.CANCEL, batch)
            late = [a_job(batch) for _ in range(120)]
            assert await add(store, batch, *late) == ["refused"] * 120
            assert (await counted(store, batch), len(await jobs_of(store, batch))) == ((250, 250, 0, 250), 250)

    @proves("BA1")
    async def test_pages_that_come_at_once_get_different_numbers(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await asyncio.gather(*(add(store, batch, *(a_job(batch) for _ in range(5))) for _ in range(8)))
            assert [job.step and job.step.index for job in await jobs_of(store, batch)] == list(range(1, 41))
            assert await counted(store, batch) == (40, 0, 0, 0)

    @proves("BA1")
    async def test_no_job_is_added_to_a_batch_that_has_ended_or_to_a_flow_that_is_none(self) -> None:
        async with self.opened() as store:
            batch, plain = await a_batch(store), await a_batch(store, Plan((PlannedStep("a", "a"),)))
            page = [a_job(batch)]
            await add(store, batch, *page)
            await close(store, batch)
            await end(store, (await jobs_of(store, batch))[0], Done())
            for refused in ([a_job(batch)], [new_job(), a_job(plain)], [a_job("gone")], [a_job(batch), *page]):
                assert await add(store, batch, *refused) == ["refused"] * len(refused)
            assert await add(store, batch, *page) == ["new"]
            assert len(await jobs_of(store, batch)) == 1
            mapped = await a_batch(
                store, Plan((PlannedStep("a", "a", yields=True), PlannedStep("b", "b", over=ValueOf(0), item="n")))
            )
            item = new_job(step=StepRef(mapped, position_of(1, NEXT_INDEX), "default"))
            assert (await statuses(store, mapped), await add(store, mapped, item)) == ("rr", ["refused"])
            assert await counted(store, batch) == (1, 1, 0, 0)

    @proves("BA1", "BA2")
    async def test_a_closed_batch_takes_jobs_while_one_of_its_own_is_unfinished(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch)
            await close(store, batch)
            assert await add(store, batch) == ["new"]
            first, second = await jobs_of(store, batch)
            await end(store, first, Done())
            assert await statuses(store, batch) == "rwww"
            await end(store, second, Done())
            assert await statuses(store, batch) == "cnrr"

    @proves("BA2", "BA3")
    async def test_a_batch_that_was_closed_is_not_closed_as_dead(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch)
            await close(store, batch)
            assert await close(store, batch, 1) is None
            await end(store, (await jobs_of(store, batch))[0], Done())
            assert await statuses(store, batch) == "cnrr"

    # closing

    @proves("BA2")
    async def test_an_empty_batch_completes_when_it_is_closed(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            assert await close(store, batch) is None
            assert await statuses(store, batch) == "cnrr"
            assert await close(store, batch) is None
            assert await statuses(store, batch) == "cnrr"

    @proves("BA2")
    async def test_an_open_batch_goes_on_when_all_of_its_jobs_have_ended(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch)
            await end(store, (await jobs_of(store, batch))[0], Done())
            assert await statuses(store, batch) == "rwww"
            await add(store, batch)
            assert await close(store, batch) is None
            await end(store, (await jobs_of(store, batch))[1], Done())
            assert await statuses(store, batch) == "cnrr"
            (report,) = await jobs_of(store, batch, 2)
            counts = {"total": 2, "completed": 2, "dead": 0, "cancelled": 0, "unfinished": 0}
            assert (report.queue, msgspec.json.decode(report.payload)) == (
                "other",
                {
                    "summary": {
                        "id": batch,
                        "name": "letters",
                        "counts": counts,
                        "metadata": {"issue": 7},
                        "reason": None,
                    }
                },
            )
            assert (await jobs_of(store, batch, 3))[0].payload == "{}"

    @proves("BA2")
    async def test_a_flow_that_is_no_batch_is_not_closed(self) -> None:
        async with self.opened() as store:
            plain = await a_batch(store, Plan((PlannedStep("a", "a"),)))
            refusal = await close(store, plain)
            assert "is no batch" in (refusal.error or "" if refusal else "")
            assert await close(store, new_job().id) is not None

    @pytest.mark.parametrize(
        "ended", [Snooze(5), Retry(), ValueError("once more")], ids=["snoozed", "retried", "failed"]
    )
    @proves("BA2")
    async def test_a_job_that_is_unfinished_keeps_a_closed_batch_open(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch, a_job(batch, max_retries=5))
            await close(store, batch)
            await end(store, (await jobs_of(store, batch))[0], ended)
            assert await statuses(store, batch) == "rwww"

    @proves("BA2")
    async def test_a_cancelled_job_leaves_the_batch_cancelled(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch)
            await close(store, batch)
            await act(store, Action.CANCEL, (await jobs_of(store, batch))[0].id)
            assert (await counted(store, batch), await statuses(store, batch)) == ((1, 1, 0, 1), "xnxr")

    # a maker that has gone

    @proves("BA3", "BA5")
    async def test_a_batch_that_is_never_closed_is_dead_when_its_jobs_have_ended(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch)
            assert await close(store, batch, 0) is not None
            assert await statuses(store, batch) == "rwww"
            assert await close(store, batch, 1) is None
            assert await statuses(store, batch) == "rruw"
            (alert,) = await jobs_of(store, batch, 1)
            assert "never closed" in alert.payload
            await end(store, (await jobs_of(store, batch))[0], Done())
            assert await statuses(store, batch) == "drur"

    @proves("BA3")
    async def test_a_retry_takes_what_was_never_closed_as_complete(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store, Plan((LETTERS.steps[0], LETTERS.steps[2]), LETTERS.inputs))
            await close(store, batch, 0)
            assert await statuses(store, batch) == "du"
            await _conclude(store, batch, Discard("never closed"))
            await act(store, Action.RETRY, batch)
            assert (await statuses(store, batch), (await read_job(store, batch)).state) == ("cr", State.WAITING)

    @proves("BA4")
    async def test_a_job_is_due_that_closes_it_until_it_is_closed_or_gone(self) -> None:
        async with self.opened() as store:
            batches = [await a_batch(store) for _ in range(4)]
            due = {(job.run_at, job.payload) for job in await closing_jobs(store)}
            assert due == {(later(OPEN_SECONDS), f'{{"flow":"{batch}"}}') for batch in batches}
            await close(store, batches[0])
            await act(store, Action.CANCEL, batches[1])
            await act(store, Action.DELETE, batches[2])
            assert await statuses(store, batches[1]) == "xxxr"
            assert [job.payload for job in await closing_jobs(store)] == [f'{{"flow":"{batches[3]}"}}']

    # the first death

    @proves("BA5")
    async def test_the_first_death_calls_the_step_for_failures_once(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch, *(a_job(batch) for _ in range(3)))
            first, second, third = await jobs_of(store, batch)
            await end(store, first, Discard("no"))
            assert await statuses(store, batch) == "rruw"
            (alert,) = await jobs_of(store, batch, 1)
            counts = {"total": 3, "completed": 0, "dead": 1, "cancelled": 0, "unfinished": 2}
            assert msgspec.json.decode(alert.payload)["summary"]["counts"] == counts
            await end(store, second, Discard("no"))
            await end(store, alert, Done())
            await close(store, batch)
            await end(store, third, Done())
            assert await statuses(store, batch) == "dcur"
            assert (await jobs_of(store, batch, 1), await jobs_of(store, batch, 2)) == (
                [await read_job(store, alert.id)],
                [],
            )

    @proves("BA5")
    async def test_a_dead_job_that_is_put_back_to_work_leads_to_success(self) -> None:
        async with self.opened() as store:
            batch = await a_batch(store)
            await add(store, batch, a_job(batch), a_job(batch))
            await close(store, batch)
            first, second = await jobs_of(store, batch)
            await end(store, first, Discard("no"))
            await end(store, second, Discard("no"))
            for number in (1, 3):
                await end(store, (await jobs_of(store, batch, number))[0], Done())
            assert await statuses(store, batch) == "dcuc"
            await _conclude(store, batch, Discard("dead jobs"))
            await act(store, Action.RETRY, first.id)
            assert await statuses(store, batch) == "rcuw"
            await end(store, first, Done())
            assert await statuses(store, batch) == "dcur"
            await act(store, Action.RETRY, second.id)
            await end(store, second, Done())
            assert (await statuses(store, batch), await counted(store, batch)) == ("ccrr", (2, 2, 0, 0))
            assert len(await jobs_of(store, batch, 1)) == 1

    # in a batch

    @proves("BA1", "BA2")
    async def test_a_batch_in_a_batch_is_one_of_its_jobs(self) -> None:
        async with self.opened() as store:
            outer = await a_batch(store)
            inner = a_job(outer, plan=LETTERS)
            await add(store, outer, inner, a_job(outer))
            await close(store, outer)
            await add(store, inner.id, a_job(inner.id))
            assert await counted(store, outer) == (2, 0, 0, 0)
            await act(store, Action.CANCEL, outer)
            assert [job.state for job in await jobs_of(store, inner.id)] == [State.CANCELLED]
            assert (await statuses(store, inner.id), await statuses(store, outer)) == ("xxxr", "rxxw")
            await end(store, (await jobs_of(store, inner.id, 3))[0], Done())
            await _conclude(store, inner.id, Cancel("stopped"))
            assert await statuses(store, outer) == "xxxr"


async def _conclude(store: Store, batch: JobId, ended: RunEnd) -> None:
    (found,) = await _flows(store).flows([batch])
    run = await claim_job(store, batch, tasks=["task"])
    assert await finish_run(store, run, ended, now=NOW, concludes=found.row.revision) == {batch}
