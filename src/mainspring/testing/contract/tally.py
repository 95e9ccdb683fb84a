"""tallies: accepted runs are counted once, by minute, hour and all time, by queue and task."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from ...clock import EPOCH, micros
from ...histogram import bucket_of
from ...records.job import Action, Job, State
from ...records.outcome import Crashed, Discard, Done, Outcome, Released, Retry, RunEnd, Snooze, decide
from ...records.run import Ending, Failure, Items, RunNotes
from ...records.tally import NOT_COUNTED, RETENTION, SPAN_SECONDS, RunSums, Span, Tally
from ...store import Store
from .build import NOW, Contract, act, beat, claim, claim_job, finish_run, later, new_job, put, start
from .sentences import proves

SPANS = tuple(SPAN_SECONDS)
BEGINS: dict[Span, datetime] = {"minute": NOW, "hour": NOW, "day": NOW.replace(hour=0), "ever": EPOCH}


async def endings_counted(store: Store, span: Span = "ever") -> dict[str, int]:
    """Number of runs by ending, over all queues and tasks."""
    total = RunSums()
    for tally in await store.tallies(span, since=EPOCH):
        total.add(tally.sums)
    return total.endings


def outcome_of(job: Job, ending: Ending, **fields: Any) -> Outcome:
    given = {"id": job.id, "lease": job.lease, "state": State.DEAD, "ending": ending, "finished_at": NOW}
    return Outcome(**{**given, "task": job.task, "queue": job.queue, "started_at": job.started_at, **fields})


class TallyContract(Contract):
    # what is counted

    @proves("O4")
    async def test_a_fresh_store_has_no_tallies(self) -> None:
        async with self.opened() as store:
            assert [await store.tallies(span, since=EPOCH) for span in SPANS] == [[]] * len(SPANS)

    @proves("F10")
    @pytest.mark.parametrize("span", SPANS)
    async def test_a_run_is_counted_in_the_span_in_which_it_ended(self, span: Span) -> None:
        async with self.opened() as store:
            job = await start(store, queue="mail", task="send")
            await finish_run(store, job, Done(), now=later(1.5))
            end = micros(later(1.5))
            sums = RunSums({"completed": 1}, 1_500_000, {bucket_of(1_500_000): 1}, {}, end, end, waits={0: 1})
            sums.took_ends, sums.wait_ends = (1_500_000, 1_500_000), (0, 0)
            assert await store.tallies(span, since=EPOCH) == [Tally(BEGINS[span], "mail", "send", sums)]

    @proves("TA2")
    @pytest.mark.parametrize("ending", Ending)
    async def test_a_run_is_counted_by_its_ending_but_not_if_it_was_snoozed_or_released(self, ending: Ending) -> None:
        async with self.opened() as store:
            await store.finish([outcome_of(await start(store), ending)])
            counted = {} if ending in NOT_COUNTED else {ending: 1}
            assert [await endings_counted(store, span) for span in SPANS] == [counted] * len(SPANS)

    @proves("F10", "TA2")
    async def test_every_run_of_a_job_counts(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0), now=NOW)
            await finish_run(store, await claim_job(store, job.id), Snooze(0), now=NOW)
            await finish_run(store, await claim_job(store, job.id), Done(), now=NOW)
            assert await endings_counted(store) == {"failed": 1, "completed": 1}

    @proves("TA4")
    async def test_tallies_sum_up_runs(self) -> None:
        async with self.opened() as store:
            first, second, third = [await start(store) for _ in range(3)]
            await store.finish([decide(first, Done(), now=later(2)), decide(second, Discard(), now=later(1))])
            await finish_run(store, third, Done(), now=later(1))
            (tally,) = await store.tallies("minute", since=NOW)
            assert tally.sums.endings == {"completed": 2, "discarded": 1}
            assert tally.sums.took == 4_000_000
            assert tally.sums.spread == {bucket_of(1_000_000): 2, bucket_of(2_000_000): 1}
            assert tally.sums.last == micros(later(2))

    @proves("TA4")
    async def test_wait_time_and_run_time_are_counted(self) -> None:
        async with self.opened() as store:
            # due at once; due later; due in the past, so that it waits since it was created
            for run_at in (None, later(2), later(-100)):
                await put(store, new_job(run_at=run_at))
            await beat(store)
            for job in (await claim(store, now=later(5))).jobs:
                await finish_run(store, job, Done(), now=later(6))
            for span in SPANS:
                (tally,) = await store.tallies(span, since=EPOCH)
                assert tally.sums.waits == {bucket_of(5_000_000): 2, bucket_of(3_000_000): 1}
                assert (tally.sums.waited, tally.sums.took) == (13_000_000, 3_000_000)

    @proves("TA4")
    async def test_wait_time_is_counted_for_failed_runs_and_retries(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(10), now=later(1))
            await finish_run(store, await claim_job(store, job.id, now=later(12)), Done(), now=later(13))
            (tally,) = await store.tallies("ever", since=EPOCH)
            assert (tally.sums.waits, tally.sums.waited) == ({0: 1, bucket_of(1_000_000): 1}, 1_000_000)

    @proves("TA4")
    async def test_wait_time_is_counted_for_a_crashed_run(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            await beat(store)
            await claim(store, now=later(3))
            (lost,) = await store.orphaned(now=later(60), limit=10)
            await store.finish([decide(lost, Crashed("ada", 3), now=later(60))])
            (tally,) = await store.tallies("ever", since=EPOCH)
            assert (tally.sums.waits, tally.sums.endings) == ({bucket_of(3_000_000): 1}, {"crashed": 1})

    @proves("TA2")
    async def test_a_partial_run_is_counted_as_partial_and_not_as_completed_or_as_an_error(self) -> None:
        async with self.opened() as store:
            items = Items(success=9, failed=1)
            for done in (Done(), Done("1").partly(items)):
                await finish_run(store, await start(store), done, now=later(1), account=RunNotes(items=items))
            for span in SPANS:
                (tally,) = await store.tallies(span, since=EPOCH)
                assert tally.sums.endings == {"completed": 1, "partial": 1}
                assert (tally.sums.errors, tally.sums.fates, tally.sums.well) == ({}, {}, micros(later(1)))

    @proves("TA4")
    async def test_tallies_have_the_last_run_and_the_last_completed_run(self) -> None:
        async with self.opened() as store:
            for how, at in ((Done(), 1), (Discard(), 2)):
                await finish_run(store, await start(store), how, now=later(at))
            (tally,) = await store.tallies("ever", since=EPOCH)
            assert (tally.sums.well, tally.sums.last) == (micros(later(1)), micros(later(2)))

    @proves("TA4")
    async def test_tallies_count_retries_and_dead_jobs_of_failed_runs(self) -> None:
        async with self.opened() as store:
            for how in (Retry(60), Retry(60), Discard(), Done(), Snooze(60)):
                await finish_run(store, await start(store), how, now=NOW)
            (tally,) = await store.tallies("ever", since=EPOCH)
            assert tally.sums.fates == {"pending": 2, "dead": 1}

    @proves("TA4")
    async def test_items_are_counted_however_the_run_ended(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(3)]
            endings_counted: tuple[RunEnd, ...] = (Done(), Retry(60), Snooze(60))
            for job, how, items in zip(jobs, endings_counted, (Items(5, 1, 0), Items(2, 0, 3), Items(10)), strict=True):
                await store.finish([decide(job, how, now=NOW, account=RunNotes(items=items))])
            for span in SPANS:
                (tally,) = await store.tallies(span, since=EPOCH)
                assert tally.sums.items == {"success": 17, "failed": 1, "skipped": 3}
                assert sum(tally.sums.endings.values()) == 2

    @proves("TA4")
    async def test_failures_are_counted_by_kind(self) -> None:
        async with self.opened() as store:
            for message in ("disk 1 is full", "disk 2 is full", "gone"):
                job = await start(store)
                await store.finish([outcome_of(job, Ending.FAILED, failure=Failure("OSError", message))])
            await finish_run(store, await start(store), Done())
            (tally,) = await store.tallies("hour", since=NOW)
            assert tally.sums.errors == {"OSError: disk … is full": 2, "OSError: gone": 1}

    @proves("TA4")
    @pytest.mark.parametrize("span", SPANS)
    async def test_the_latest_message_of_each_failure_kind_is_kept(self, span: Span) -> None:
        async with self.opened() as store:
            for disk, at in ((1, 3), (2, 9), (3, 5)):
                failure = Failure("OSError", f"disk {disk} is full\nof logs")
                await store.finish(
                    [outcome_of(await start(store), Ending.FAILED, failure=failure, finished_at=later(at))]
                )
            await finish_run(store, await start(store), Done())
            (tally,) = await store.tallies(span, since=EPOCH)
            assert tally.sums.lines == {"OSError: disk … is full": (micros(later(9)), "OSError: disk 2 is full")}

    @proves("F8", "TA2")
    async def test_a_run_whose_job_ends_cancelled_instead_counts_as_it_ended(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            await finish_run(store, job, Retry(5))
            assert await endings_counted(store) == {"failed": 1}

    @proves("F12")
    async def test_a_run_without_a_task_is_not_counted(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, job, Done(), task="") == {job.id}
            assert await endings_counted(store) == {}

    # idempotence

    @proves("F1", "F10")
    @pytest.mark.parametrize("lease", ["another", ""])
    async def test_a_refused_outcome_is_not_counted(self, lease: str) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, replace(job, lease=lease), Done())
            assert await endings_counted(store) == {}

    @proves("F1", "F10")
    async def test_a_late_outcome_is_not_counted(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW)
            await finish_run(store, job, Done())
            assert await endings_counted(store) == {"crashed": 1}

    @proves("F2", "F10")
    async def test_a_refused_crash_is_not_counted(self) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), Crashed("ada", 3), now=NOW)
            assert await endings_counted(store) == {}

    @proves("F3", "F10")
    @pytest.mark.parametrize("ended", [Done(), Retry(5), Discard()], ids=lambda ended: type(ended).__name__)
    async def test_a_repeated_outcome_is_counted_once(self, ended: Any) -> None:
        async with self.opened() as store:
            outcome = decide(await start(store), ended, now=later(1))
            for _ in range(3):
                await store.finish([outcome])
            await store.finish([outcome, outcome])
            assert [await endings_counted(store, span) for span in SPANS] == [{outcome.ending: 1}] * len(SPANS)

    @proves("F3", "F10")
    async def test_a_repeated_batch_with_new_outcomes_counts_only_the_new_ones(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(4)]
            run_ends: list[RunEnd] = [Done(), Discard(), Done(), Retry(5)]
            outcomes = [decide(job, how, now=later(1)) for job, how in zip(jobs, run_ends, strict=True)]
            await store.finish(outcomes[:2])
            assert await store.finish(outcomes) == {job.id for job in jobs}
            assert await endings_counted(store) == {"completed": 2, "discarded": 1, "failed": 1}

    # spans

    @proves("F10")
    async def test_tallies_of_minutes_and_hours_begin_on_the_clock(self) -> None:
        async with self.opened() as store:
            for at in (59.999999, 60, 3599.999999, 3600):
                await finish_run(store, await start(store), Done(), now=later(at))
            minutes, hours = [await store.tallies(span, since=NOW) for span in ("minute", "hour")]
            begins = [later(0), later(60), later(59 * 60), later(3600)]
            assert [(tally.at, tally.sums.endings["completed"]) for tally in minutes] == [(at, 1) for at in begins]
            assert [(tally.at, tally.sums.endings["completed"]) for tally in hours] == [(NOW, 3), (later(3600), 1)]
            assert await endings_counted(store) == {"completed": 4}

    @proves("F10")
    async def test_outcomes_of_several_minutes_may_come_in_one_call(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(3)]
            ends = [later(70), later(10), later(65)]
            await store.finish([decide(job, Done(), now=at) for job, at in zip(jobs, ends, strict=True)])
            found = [(tally.at, tally.sums.endings) for tally in await store.tallies("minute", since=NOW)]
            assert found == [(later(0), {"completed": 1}), (later(60), {"completed": 2})]

    @proves("TA1")
    async def test_tallies_are_listed_by_start_queue_and_task(self) -> None:
        async with self.opened() as store:
            order = [(0, "a", "x"), (0, "a", "y"), (0, "b", "x"), (60, "a", "x")]
            for at, queue, task in reversed(order):
                await finish_run(store, await start(store, queue=queue, task=task), Done(), now=later(at))
            found = await store.tallies("minute", since=NOW)
            assert [(tally.at, tally.queue, tally.task) for tally in found] == [
                (later(at), queue, task) for at, queue, task in order
            ]

    @proves("TA1")
    async def test_tallies_leave_out_spans_that_began_before_since(self) -> None:
        async with self.opened() as store:
            for at in (30, 90):
                await finish_run(store, await start(store), Done(), now=later(at))
            for since, begins in ((0, [0, 60]), (0.000001, [60]), (60, [60]), (61, [])):
                found = await store.tallies("minute", since=later(since))
                assert [tally.at for tally in found] == [later(at) for at in begins]

    @proves("TA3")
    @pytest.mark.parametrize("span", ["minute", "hour"])
    async def test_tallies_of_minutes_and_hours_are_kept_for_their_retention(self, span: Span) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), Done(), now=NOW)
            await finish_run(store, await start(store), Done(), now=NOW + RETENTION[span])
            assert [tally.at for tally in await store.tallies(span, since=EPOCH)] == [NOW, NOW + RETENTION[span]]

    @proves("TA3")
    async def test_the_tally_of_all_time_is_kept(self) -> None:
        async with self.opened() as store:
            for days in (0, 40, 400):
                await finish_run(store, await start(store), Done(), now=NOW + timedelta(days=days))
            assert await endings_counted(store) == {"completed": 3}

    # independence from jobs

    @proves("TA3")
    async def test_a_run_stays_counted_when_its_job_is_deleted(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Done())
            await act(store, Action.DELETE, job.id)
            assert [await endings_counted(store, span) for span in SPANS] == [{"completed": 1}] * len(SPANS)

    @proves("V9")
    async def test_changing_a_returned_tally_does_not_change_the_store(self) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), Done())
            (tally,) = await store.tallies("ever", since=EPOCH)
            tally.sums.add(tally.sums)
            assert await endings_counted(store) == {"completed": 1}

    @proves("F10")
    async def test_every_run_of_a_batch_is_counted(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(6)]
            run_ends: list[RunEnd] = [Done(), Done(), Done(), Discard(), Released(), Retry(1)]
            await store.finish([decide(job, how, now=NOW) for job, how in zip(jobs, run_ends, strict=True)])
            assert await endings_counted(store) == {"completed": 3, "discarded": 1, "failed": 1}
