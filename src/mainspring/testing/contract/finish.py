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
    all_jobs,
    beat,
    claim,
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

FAILURE = Failure("Böse", 'it "failed"\n', "Traceback …\n  line")


def outcome(job: Job, state: State, ending: Ending, **fields: Any) -> Outcome:
    given = {"id": job.id, "lease": job.lease, "state": state, "ending": ending, "finished_at": later(1)}
    return Outcome(**{**given, **fields})


def ending_name(ended: RunEnd) -> str:
    return type(ended).__name__


class FinishContract(Contract):
    # the new state of the job

    @proves("F4")
    async def test_a_completed_run_ends_its_job_with_the_result(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, job, Done('{"é": 1.10}'), now=later(1.000001)) == {job.id}
            ended = await read_job(store, job.id)
            assert (ended.state, ended.result, ended.failure) == (State.COMPLETED, '{"é": 1.10}', None)
            assert (ended.started_at, ended.finished_at) == (NOW, later(1.000001))
            assert (ended.attempt, ended.runs) == (1, 1)

    @proves("F4")
    async def test_a_result_of_none_and_a_missing_result_differ(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await store.finish([decide(first, Done("null"), now=NOW), decide(second, Done(), now=NOW)])
            assert [(await read_job(store, job.id)).result for job in (first, second)] == ["null", None]

    @proves("F4")
    async def test_a_failed_run_with_retries_left_waits_for_its_run_at(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, job, Retry(5.000001), now=later(1)) == {job.id}
            waiting = await read_job(store, job.id)
            assert (waiting.state, waiting.run_at) == (State.PENDING, later(6.000001))
            assert (waiting.attempt, waiting.runs, waiting.finished_at) == (1, 1, None)
            assert (waiting.lease, waiting.worker) == (None, None)
            assert await claim_ids(store, now=later(6)) == []
            assert await claim_ids(store, now=later(6.000001)) == [job.id]

    @proves("F4")
    async def test_a_run_out_of_retries_is_dead_with_its_failure(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await store.finish([outcome(job, State.DEAD, Ending.FAILED, failure=FAILURE)])
            dead = await read_job(store, job.id)
            assert (dead.state, dead.failure, dead.finished_at) == (State.DEAD, FAILURE, later(1))
            assert await claim_ids(store, now=later(59)) == []

    @proves("F4")
    async def test_a_cancelled_run_ends_its_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, job, Cancel("enough")) == {job.id}
            ended = await read_job(store, job.id)
            assert (ended.state, ended.finished_at) == (State.CANCELLED, later(1))

    @proves("F4")
    async def test_a_snooze_gives_the_attempt_back(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Snooze(5), now=later(1))
            waiting = await read_job(store, job.id)
            assert (waiting.state, waiting.run_at) == (State.PENDING, later(6))
            assert (waiting.attempt, waiting.runs) == (0, 1)

    @proves("F4")
    async def test_a_release_gives_the_attempt_back_and_is_due_at_once(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Released(), now=later(1))
            again = await claim_job(store, job.id, now=later(1))
            assert (again.attempt, again.runs) == (1, 2)

    @proves("F4")
    async def test_a_refund_gives_back_one_attempt_only(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0), now=NOW)
            await finish_run(store, await claim_job(store, job.id), Snooze(0), now=NOW)
            assert (await claim_job(store, job.id)).attempt == 2

    @proves("F4")
    async def test_a_crash_is_counted_and_the_job_runs_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            assert await finish_run(store, job, Crashed("ada", 3), now=later(1)) == {job.id}
            waiting = await read_job(store, job.id)
            assert (waiting.state, waiting.crashes, waiting.attempt) == (State.PENDING, 1, 1)
            assert (await claim_job(store, job.id, worker="bob", now=later(1))).crashes == 1

    @proves("F4")
    async def test_the_last_crash_allowed_ends_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            assert await finish_run(store, job, Crashed("ada", 1), now=later(1)) == {job.id}
            dead = await read_job(store, job.id)
            assert (dead.state, dead.crashes) == (State.DEAD, 1)

    @proves("F4")
    async def test_a_run_that_ended_well_counts_no_crash(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(5))
            assert (await read_job(store, job.id)).crashes == 0

    @proves("F5")
    async def test_finish_applies_each_outcome_of_a_call_to_its_own_job(self) -> None:
        async with self.opened() as store:
            endings: list[RunEnd] = [Done(), Retry(5), Discard(), Cancel(), Snooze(5)]
            jobs = [await start(store) for _ in endings]
            pairs = zip(jobs, endings, strict=True)
            settled = await store.finish([decide(job, ended, now=later(1)) for job, ended in pairs])
            assert settled == {job.id for job in jobs}
            states = [State.COMPLETED, State.PENDING, State.DEAD, State.CANCELLED, State.PENDING]
            assert [(await read_job(store, job.id)).state for job in jobs] == states

    @proves("V11")
    async def test_finish_of_no_outcomes_is_no_error(self) -> None:
        async with self.opened() as store:
            assert await store.finish([]) == set()

    # the fence

    @proves("F1", "V11")
    async def test_an_outcome_of_an_unknown_job_is_not_accepted(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            stranger = outcome(replace(job, id=new_job().id), State.COMPLETED, Ending.COMPLETED)
            assert await store.finish([stranger, decide(job, Done(), now=NOW)]) == {job.id}

    @proves("F1")
    async def test_an_outcome_under_another_lease_changes_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, replace(job, lease="another"), Done()) == set()
            assert await read_job(store, job.id) == job
            assert await store.executions(job.id) == []

    @proves("F1")
    async def test_a_lease_is_good_only_for_the_jobs_of_its_own_claim(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            assert await finish_run(store, replace(second, lease=first.lease), Done()) == set()
            assert await read_job(store, second.id) == second

    @proves("F1")
    async def test_a_late_outcome_of_a_lost_lease_changes_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW)
            again = await claim_job(store, job.id, worker="bob")
            assert await finish_run(store, job, Done('"late"')) == set()
            assert await read_job(store, job.id) == again
            assert len(await store.executions(job.id)) == 1

    @proves("F1")
    async def test_a_late_outcome_changes_nothing_though_the_attempt_was_refunded(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Released(), now=NOW)
            again = await claim_job(store, job.id)
            assert (again.attempt, again.worker) == (job.attempt, job.worker)
            assert await finish_run(store, job, Done('"late"')) == set()
            assert await read_job(store, job.id) == again

    @proves("F1", "F3")
    @pytest.mark.parametrize("late", [Done('"late"'), Retry(5), Discard(), Released()], ids=ending_name)
    async def test_a_different_outcome_of_an_ended_run_is_not_acknowledged(self, late: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Snooze(30), now=later(1))
            before = await read_job(store, job.id)
            assert await finish_run(store, job, late, now=later(2)) == set()
            assert await read_job(store, job.id) == before
            assert len(await store.executions(job.id)) == 1

    @proves("F1", "F6", "V2")
    async def test_concurrent_outcomes_end_a_run_once(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            endings: list[RunEnd] = [Done(), Retry(5), Discard(), Cancel(), Snooze(5)] * 2
            decided = await asyncio.gather(*(finish_run(store, job, ended) for ended in endings))
            assert job.id in set().union(*decided)
            assert len(await store.executions(job.id)) == 1

    @proves("F1", "F5")
    async def test_the_first_of_several_outcomes_of_one_run_in_one_call_is_accepted(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            others: list[RunEnd] = [Done(), Retry(5), Cancel(), Snooze(5)]
            await store.finish([decide(job, ended, now=later(1)) for ended in [Discard(), *others * 4]])
            assert (await read_job(store, job.id)).state is State.DEAD
            assert [row.ending for row in await store.executions(job.id)] == [Ending.DISCARDED]

    # idempotence

    @proves("F3", "V3")
    @pytest.mark.parametrize(
        "ended", [Done('"x"'), Retry(5), Snooze(5), Released(), Discard(), Cancel(), Stopped("x")], ids=ending_name
    )
    async def test_finish_is_idempotent(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            decided = decide(job, ended, now=later(1))
            await store.finish([decided])
            before, rows = await read_job(store, job.id), await store.executions(job.id)
            assert await store.finish([decided]) == {job.id}
            assert (await read_job(store, job.id), await store.executions(job.id)) == (before, rows)

    @proves("F3")
    async def test_finish_is_idempotent_during_the_next_run(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            decided = decide(job, Retry(0), now=NOW)
            await store.finish([decided])
            again = await claim_job(store, job.id)
            assert await store.finish([decided]) == {job.id}
            assert await read_job(store, job.id) == again
            assert len(await store.executions(job.id)) == 1

    @proves("F3", "F6")
    async def test_an_outcome_repeated_in_one_call_makes_one_execution(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            decided = decide(job, Snooze(5), now=NOW)
            assert await store.finish([decided, decided]) == {job.id}
            assert len(await store.executions(job.id)) == 1
            assert (await read_job(store, job.id)).attempt == 0

    @proves("F3")
    async def test_a_repeated_crash_is_acknowledged_and_counted_once(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            decided = decide(job, Crashed("ada", 3), now=later(1))
            assert await store.finish([decided]) == await store.finish([decided]) == {job.id}
            assert (await read_job(store, job.id)).crashes == 1

    # crashes

    @proves("F2")
    async def test_a_crash_is_accepted_only_if_the_worker_is_silent(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            assert await finish_run(store, job, Crashed("ada", 3), now=later(19.999999)) == set()
            assert await read_job(store, job.id) == job
            assert await finish_run(store, job, Crashed("ada", 3), now=later(20)) == {job.id}

    @proves("F2")
    async def test_a_crash_is_accepted_once_the_row_of_the_worker_is_gone(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            assert await finish_run(store, job, Crashed("ada", 3), now=NOW) == {job.id}

    @proves("F2")
    async def test_a_crash_that_does_not_require_silence_is_accepted_of_a_live_worker(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, job, ProcessDied("killed", 3), now=later(1)) == {job.id}
            assert (await read_job(store, job.id)).crashes == 1

    @proves("F2")
    @pytest.mark.parametrize("ended", [Done('"x"'), Retry(5), Snooze(5), Discard(), Cancel()], ids=ending_name)
    async def test_an_outcome_that_requires_silence_is_refused_of_a_live_worker(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            assert await finish_run(store, job, ended, now=later(19), silent=True) == set()
            assert await read_job(store, job.id) == job
            assert await finish_run(store, job, ended, now=later(20), silent=True) == {job.id}

    @proves("F1")
    async def test_a_crash_under_a_lost_lease_changes_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0), now=NOW)
            again = await claim_job(store, job.id)
            await beat(store, until=NOW)
            assert await finish_run(store, job, Crashed("ada", 3), now=later(1)) == set()
            assert await read_job(store, job.id) == again

    # cancelled while it ran

    @proves("F8")
    @pytest.mark.parametrize("ended", [Retry(5), Snooze(5), Released()], ids=ending_name)
    async def test_a_job_asked_to_cancel_is_cancelled_instead_of_retried(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="stop")
            assert await finish_run(store, job, ended, now=later(1)) == {job.id}
            stopped = await read_job(store, job.id)
            assert (stopped.state, stopped.finished_at) == (State.CANCELLED, later(1))
            assert stopped.cancel_reason == "stop"
            assert await claim_ids(store, now=later(50)) == []
            assert len(await store.executions(job.id)) == 1

    @proves("F4", "F8")
    async def test_a_refund_counts_even_if_the_job_ends_cancelled(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            await finish_run(store, job, Released())
            assert (await read_job(store, job.id)).attempt == 0

    @proves("E6", "F8")
    async def test_a_job_asked_to_cancel_whose_worker_crashed_ends_cancelled(self) -> None:
        async with self.opened() as store:
            job = await start(store, unique_key="key")
            await act(store, Action.CANCEL, job.id)
            await beat(store, until=NOW)
            assert await finish_run(store, job, Crashed("ada", 3), now=later(1)) == {job.id}
            assert (await read_job(store, job.id)).state is State.CANCELLED
            successor = new_job(unique_key="key")
            assert await put(store, successor) == [successor.id]

    @proves("F8")
    @pytest.mark.parametrize("ended", [Done(), Discard()], ids=ending_name)
    async def test_a_job_asked_to_cancel_keeps_another_final_state(self, ended: Any) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            decided = decide(job, ended, now=later(1))
            await store.finish([decided])
            assert (await read_job(store, job.id)).state is decided.state

    @proves("F3", "F8")
    async def test_finish_is_idempotent_for_an_outcome_that_became_cancelled(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            decided = decide(job, Retry(5), now=later(1))
            assert await store.finish([decided]) == await store.finish([decided]) == {job.id}
            assert len(await store.executions(job.id)) == 1

    # other jobs

    @proves("F5")
    async def test_an_outcome_does_not_change_other_jobs(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            await finish_run(store, job, Retry(5))
            assert [found for found in await all_jobs(store) if found.id == other.id] == [other]

    @proves("C6")
    async def test_a_job_that_runs_again_keeps_its_place_in_the_order(self) -> None:
        async with self.opened() as store:
            job = await start(store, priority=5)
            await put(store, new_job(priority=9), new_job(priority=1))
            await finish_run(store, job, Released(), now=NOW)
            assert [found.priority for found in (await claim(store)).jobs] == [9, 5, 1]
