"""finish: a run ends once, under the lease that started it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ...records.job import Action, Job, State
from ...records.outcome import (
    Cancel,
    Crashed,
    Discard,
    Done,
    Outcome,
    ProcessDied,
    Released,
    Retry,
    RunEnd,
    Snooze,
    Stopped,
    decide,
)
from ...records.run import Ending, Failure
from .build import (
    NOW,
    Contract,
    act,
    beat,
    claim,
    claimed,
    everything,
    later,
    new_job,
    put,
    run_again,
    see,
    settle,
    start,
)

FAILURE = Failure("Böse", 'it "failed"\n', "Traceback …\n  line")


def outcome(job: Job, state: State, ending: Ending, **fields: Any) -> Outcome:
    given = {"id": job.id, "lease": job.lease, "state": state, "ending": ending, "finished_at": later(1)}
    return Outcome(**{**given, **fields})


def kind(ended: RunEnd) -> str:
    return type(ended).__name__


class FinishContract(Contract):
    # what becomes of the job

    async def test_a_completed_run_ends_its_job_with_the_result(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await settle(store, job, Done('{"é": 1.10}'), now=later(1.000001)) == {job.id}
            ended = await see(store, job.id)
            assert (ended.state, ended.result, ended.failure) == (State.COMPLETED, '{"é": 1.10}', None)
            assert (ended.started_at, ended.finished_at) == (NOW, later(1.000001))
            assert (ended.attempt, ended.runs) == (1, 1)

    async def test_a_result_of_none_and_a_missing_result_differ(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await store.finish([decide(first, Done("null"), now=NOW), decide(second, Done(), now=NOW)])
            assert [(await see(store, job.id)).result for job in (first, second)] == ["null", None]

    async def test_a_failed_run_with_retries_left_waits_for_its_run_at(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await settle(store, job, Retry(5.000001), now=later(1)) == {job.id}
            waiting = await see(store, job.id)
            assert (waiting.state, waiting.run_at) == (State.PENDING, later(6.000001))
            assert (waiting.attempt, waiting.runs, waiting.finished_at) == (1, 1, None)
            assert (waiting.lease, waiting.worker) == (None, None)
            assert await claimed(store, now=later(6)) == []
            assert await claimed(store, now=later(6.000001)) == [job.id]

    async def test_a_run_out_of_retries_is_dead_with_its_failure(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await store.finish([outcome(job, State.DEAD, Ending.FAILED, failure=FAILURE)])
            dead = await see(store, job.id)
            assert (dead.state, dead.failure, dead.finished_at) == (State.DEAD, FAILURE, later(1))
            assert await claimed(store, now=later(59)) == []

    async def test_a_cancelled_run_ends_its_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await settle(store, job, Cancel("enough")) == {job.id}
            ended = await see(store, job.id)
            assert (ended.state, ended.finished_at) == (State.CANCELLED, later(1))

    async def test_a_snooze_gives_the_attempt_back(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Snooze(5), now=later(1))
            waiting = await see(store, job.id)
            assert (waiting.state, waiting.run_at) == (State.PENDING, later(6))
            assert (waiting.attempt, waiting.runs) == (0, 1)

    async def test_a_release_gives_the_attempt_back_and_is_due_at_once(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Released(), now=later(1))
            again = await run_again(store, job.id, now=later(1))
            assert (again.attempt, again.runs) == (1, 2)

    async def test_a_refund_gives_back_one_attempt_only(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Retry(0), now=NOW)
            await settle(store, await run_again(store, job.id), Snooze(0), now=NOW)
            assert (await run_again(store, job.id)).attempt == 2

    async def test_a_crash_is_counted_and_the_job_runs_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            assert await settle(store, job, Crashed("ada", 3), now=later(1)) == {job.id}
            waiting = await see(store, job.id)
            assert (waiting.state, waiting.crashes, waiting.attempt) == (State.PENDING, 1, 1)
            assert (await run_again(store, job.id, worker="bob", now=later(1))).crashes == 1

    async def test_the_last_crash_allowed_ends_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            assert await settle(store, job, Crashed("ada", 1), now=later(1)) == {job.id}
            dead = await see(store, job.id)
            assert (dead.state, dead.crashes) == (State.DEAD, 1)

    async def test_a_run_that_ended_well_counts_no_crash(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Retry(5))
            assert (await see(store, job.id)).crashes == 0

    async def test_runs_of_one_call_are_settled_each_by_its_own_outcome(self) -> None:
        async with self.opened() as store:
            endings: list[RunEnd] = [Done(), Retry(5), Discard(), Cancel(), Snooze(5)]
            jobs = [await start(store) for _ in endings]
            pairs = zip(jobs, endings, strict=True)
            settled = await store.finish([decide(job, ended, now=later(1)) for job, ended in pairs])
            assert settled == {job.id for job in jobs}
            states = [State.COMPLETED, State.PENDING, State.DEAD, State.CANCELLED, State.PENDING]
            assert [(await see(store, job.id)).state for job in jobs] == states

    async def test_nothing_to_finish_is_no_error(self) -> None:
        async with self.opened() as store:
            assert await store.finish([]) == set()

    # the fence

    async def test_an_outcome_of_an_unknown_job_stands_for_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            stranger = outcome(replace(job, id=new_job().id), State.COMPLETED, Ending.COMPLETED)
            assert await store.finish([stranger, decide(job, Done(), now=NOW)]) == {job.id}

    async def test_an_outcome_under_another_lease_changes_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await settle(store, replace(job, lease="another"), Done()) == set()
            assert await see(store, job.id) == job
            assert await store.executions(job.id) == []

    async def test_a_lease_is_good_only_for_the_jobs_of_its_own_claim(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            assert await settle(store, replace(second, lease=first.lease), Done()) == set()
            assert await see(store, second.id) == second

    async def test_a_late_outcome_of_a_lost_lease_changes_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await settle(store, job, Crashed("ada", 3), now=NOW)
            again = await run_again(store, job.id, worker="bob")
            assert await settle(store, job, Done('"late"')) == set()
            assert await see(store, job.id) == again
            assert len(await store.executions(job.id)) == 1

    async def test_a_late_outcome_changes_nothing_though_the_attempt_was_refunded(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Released(), now=NOW)
            again = await run_again(store, job.id)
            assert (again.attempt, again.worker) == (job.attempt, job.worker)
            assert await settle(store, job, Done('"late"')) == set()
            assert await see(store, job.id) == again

    @pytest.mark.parametrize("late", [Done('"late"'), Retry(5), Discard(), Released()], ids=kind)
    async def test_another_outcome_of_a_run_that_has_ended_is_not_acknowledged(self, late: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Snooze(30), now=later(1))
            before = await see(store, job.id)
            assert await settle(store, job, late, now=later(2)) == set()
            assert await see(store, job.id) == before
            assert len(await store.executions(job.id)) == 1

    async def test_a_run_ends_once_however_many_tell_of_it_at_once(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            endings: list[RunEnd] = [Done(), Retry(5), Discard(), Cancel(), Snooze(5)] * 2
            told = await asyncio.gather(*(settle(store, job, ended) for ended in endings))
            assert job.id in set().union(*told)
            assert len(await store.executions(job.id)) == 1

    async def test_of_several_outcomes_of_one_run_in_one_call_the_first_stands(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            others: list[RunEnd] = [Done(), Retry(5), Cancel(), Snooze(5)]
            await store.finish([decide(job, ended, now=later(1)) for ended in [Discard(), *others * 4]])
            assert (await see(store, job.id)).state is State.DEAD
            assert [row.ending for row in await store.executions(job.id)] == [Ending.DISCARDED]

    # repeated

    @pytest.mark.parametrize(
        "ended", [Done('"x"'), Retry(5), Snooze(5), Released(), Discard(), Cancel(), Stopped("x")], ids=kind
    )
    async def test_a_repeated_outcome_is_acknowledged_and_changes_nothing(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            told = decide(job, ended, now=later(1))
            await store.finish([told])
            before, rows = await see(store, job.id), await store.executions(job.id)
            assert await store.finish([told]) == {job.id}
            assert (await see(store, job.id), await store.executions(job.id)) == (before, rows)

    async def test_an_outcome_repeated_while_the_next_run_goes_on_is_acknowledged(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            told = decide(job, Retry(0), now=NOW)
            await store.finish([told])
            again = await run_again(store, job.id)
            assert await store.finish([told]) == {job.id}
            assert await see(store, job.id) == again
            assert len(await store.executions(job.id)) == 1

    async def test_an_outcome_told_twice_in_one_call_makes_one_execution(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            told = decide(job, Snooze(5), now=NOW)
            assert await store.finish([told, told]) == {job.id}
            assert len(await store.executions(job.id)) == 1
            assert (await see(store, job.id)).attempt == 0

    async def test_a_repeated_crash_is_acknowledged_and_counted_once(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            told = decide(job, Crashed("ada", 3), now=later(1))
            assert await store.finish([told]) == await store.finish([told]) == {job.id}
            assert (await see(store, job.id)).crashes == 1

    # crashes

    async def test_a_crash_is_accepted_only_if_the_worker_is_silent_when_it_is_told(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            assert await settle(store, job, Crashed("ada", 3), now=later(19.999999)) == set()
            assert await see(store, job.id) == job
            assert await settle(store, job, Crashed("ada", 3), now=later(20)) == {job.id}

    async def test_a_crash_is_accepted_once_the_row_of_the_worker_is_gone(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            assert await settle(store, job, Crashed("ada", 3), now=NOW) == {job.id}

    async def test_a_crash_that_does_not_ask_for_silence_is_accepted_though_the_worker_lives(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await settle(store, job, ProcessDied("killed", 3), now=later(1)) == {job.id}
            assert (await see(store, job.id)).crashes == 1

    @pytest.mark.parametrize("ended", [Done('"x"'), Retry(5), Snooze(5), Discard(), Cancel()], ids=kind)
    async def test_whatever_asks_for_silence_needs_it(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            assert await settle(store, job, ended, now=later(19), silent=True) == set()
            assert await see(store, job.id) == job
            assert await settle(store, job, ended, now=later(20), silent=True) == {job.id}

    async def test_a_crash_under_a_lost_lease_changes_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await settle(store, job, Retry(0), now=NOW)
            again = await run_again(store, job.id)
            await beat(store, until=NOW)
            assert await settle(store, job, Crashed("ada", 3), now=later(1)) == set()
            assert await see(store, job.id) == again

    # cancelled while it ran

    @pytest.mark.parametrize("ended", [Retry(5), Snooze(5), Released()], ids=kind)
    async def test_a_job_asked_to_cancel_that_would_run_again_ends_cancelled(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="stop")
            assert await settle(store, job, ended, now=later(1)) == {job.id}
            stopped = await see(store, job.id)
            assert (stopped.state, stopped.finished_at) == (State.CANCELLED, later(1))
            assert stopped.cancel_reason == "stop"
            assert await claimed(store, now=later(50)) == []
            assert len(await store.executions(job.id)) == 1

    async def test_a_refund_counts_though_the_job_ends_cancelled(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            await settle(store, job, Released())
            assert (await see(store, job.id)).attempt == 0

    async def test_a_job_asked_to_cancel_whose_worker_crashed_ends_cancelled(self) -> None:
        async with self.opened() as store:
            job = await start(store, unique_key="key")
            await act(store, Action.CANCEL, job.id)
            await beat(store, until=NOW)
            assert await settle(store, job, Crashed("ada", 3), now=later(1)) == {job.id}
            assert (await see(store, job.id)).state is State.CANCELLED
            successor = new_job(unique_key="key")
            assert await put(store, successor) == [successor.id]

    @pytest.mark.parametrize("ended", [Done(), Discard()], ids=kind)
    async def test_a_job_asked_to_cancel_that_has_ended_otherwise_stays_so(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            told = decide(job, ended, now=later(1))
            await store.finish([told])
            assert (await see(store, job.id)).state is told.state

    async def test_an_outcome_that_ended_as_cancelled_is_acknowledged_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            told = decide(job, Retry(5), now=later(1))
            assert await store.finish([told]) == await store.finish([told]) == {job.id}
            assert len(await store.executions(job.id)) == 1

    # the others

    async def test_outcomes_leave_other_jobs_alone(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            await settle(store, job, Retry(5))
            assert [found for found in await everything(store) if found.id == other.id] == [other]

    async def test_a_job_runs_again_in_its_place_of_the_order(self) -> None:
        async with self.opened() as store:
            job = await start(store, priority=5)
            await put(store, new_job(priority=9), new_job(priority=1))
            await settle(store, job, Released(), now=NOW)
            assert [found.priority for found in (await claim(store)).jobs] == [9, 5, 1]
