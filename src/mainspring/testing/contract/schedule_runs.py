"""Runs of a schedule: how the end, change or revival of a job changes its schedule, atomically and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ...ids import JobId
from ...records.job import Action, State
from ...records.outcome import Cancel, Crashed, Discard, Done, Policy, Released, Retry, Snooze, decide
from ...records.query import Filter, Update
from ...records.run import Failure, Items, RunNotes
from ...schedule.job_ended import after_dependency_succeeded, after_job_ended, after_job_revived
from ...schedule.record import Schedule
from ...store import Store
from .build import (
    NOW,
    Contract,
    a_schedule,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    fire,
    later,
    launch,
    new_job,
    next_revision,
    put,
    read_job,
    read_schedule,
    tick_job,
)
from .sentences import proves

ENDINGS: list[tuple[Any, dict[str, Any], State]] = [
    (Done('"é"'), {}, State.COMPLETED),
    (Done('"é"'), {"account": RunNotes(Items(3, 1))}, State.COMPLETED),
    (Done('"é"'), {"failure": Failure("ValueError", "half")}, State.COMPLETED),
    (Discard("no"), {}, State.DEAD),
    (Cancel("no"), {}, State.CANCELLED),
]
AT = later(1)


async def run_job(store: Store, job_id: JobId, ended: Any = None, *, now: Any = AT, **fields: Any) -> None:
    """Claims the job and ends its run."""
    job = await claim_job(store, job_id)
    assert await finish_run(store, job, Done() if ended is None else ended, now=now, **fields) == {job_id}


async def waiting_schedule(store: Store, on: str = "hourly", name: str = "dependent", **fields: Any) -> Schedule:
    """A schedule whose tick waits until another schedule has succeeded."""
    given: dict[str, Any] = {"held_at": NOW, "waits_on": on, "due_at": later(3600), "next_run_at": later(3600)}
    new = a_schedule(name, spec={"depends_on": (on,)}, **{**given, **fields})
    assert (await fire(store, new)).stands
    return new


class ScheduleRunsContract(Contract):
    # the end of a run

    @proves("T7")
    @pytest.mark.parametrize(("how", "fields", "state"), ENDINGS, ids=str)
    async def test_a_run_that_ends_its_job_ends_it_for_the_schedule(
        self, how: Any, fields: dict[str, Any], state: State
    ) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await run_job(store, job_id, how, **fields)
            assert (await read_job(store, job_id)).state is state
            result = '"é"' if state is State.COMPLETED else None
            assert await read_schedule(store) == after_job_ended(old, job_id, state, AT, result)
            assert (await read_schedule(store)).active == ()

    @proves("T7")
    @pytest.mark.parametrize("how", [Retry(5), Snooze(5), Released(), ValueError("no")], ids=repr)
    async def test_a_run_that_does_not_end_its_job_does_not_change_the_schedule(self, how: Any) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await run_job(store, job_id, how)
            assert await read_schedule(store) == old

    @proves("T7")
    async def test_the_last_failure_of_a_job_is_a_failure_of_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await run_job(store, job_id, ValueError("no"), policy=Policy(max_retries=0))
            found = await read_schedule(store)
            assert found == after_job_ended(old, job_id, State.DEAD, AT)
            assert (found.failed, found.failures, found.last_outcome) == (1, 1, State.DEAD)

    @proves("F8", "T7")
    async def test_a_job_asked_to_cancel_that_would_run_again_is_cancelled_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            job = await claim_job(store, job_id)
            await act(store, Action.CANCEL, job_id)
            assert await read_schedule(store) == old
            await finish_run(store, job, Retry(5), now=AT)
            assert await read_schedule(store) == after_job_ended(old, job_id, State.CANCELLED, AT)

    @proves("T7")
    async def test_a_crash_without_retries_left_ends_the_job_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            job = await claim_job(store, job_id)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 1), now=AT)
            assert await read_schedule(store) == after_job_ended(old, job_id, State.DEAD, AT)

    @proves("F3", "T7")
    async def test_a_repeated_outcome_counts_once_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id, other) = await launch(store, jobs=2)
            job = await claim_job(store, job_id)
            for _ in range(3):
                assert await finish_run(store, job, Done(), now=AT) == {job_id}
            found = await read_schedule(store)
            assert (found.completed, found.revision, found.active) == (1, old.revision + 1, (other,))

    @proves("F3", "T7")
    @pytest.mark.parametrize("how", [Done(), Discard()], ids=repr)
    async def test_an_outcome_repeated_in_one_call_counts_once_for_the_schedule(self, how: Any) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            outcome = decide(await claim_job(store, job_id), how, now=AT)
            assert await store.finish([outcome, outcome]) == {job_id}
            assert (await read_schedule(store)).revision == old.revision + 1

    @proves("F5", "T7")
    @pytest.mark.parametrize("order", ["dc", "cd", "cdc", "dcd", "ddc", "ccdd"])
    async def test_ends_of_one_call_change_the_schedule_in_order(self, order: str) -> None:
        async with self.opened() as store:
            old, ids = await launch(store, spec={"overlap": "allow"}, jobs=len(order))
            await beat(store)
            jobs = {job.id: job for job in (await claim(store)).jobs}
            outcomes = [
                decide(jobs[id], Done(f'"{n}"') if how == "c" else Discard("no"), now=later(n))
                for n, (id, how) in enumerate(zip(ids, order, strict=True))
            ]
            assert await store.finish(outcomes) == set(ids)
            wanted = old
            for n, (id, how) in enumerate(zip(ids, order, strict=True)):
                state, result = (State.COMPLETED, f'"{n}"') if how == "c" else (State.DEAD, None)
                wanted = after_job_ended(wanted, id, state, later(n), result)
            assert await read_schedule(store) == wanted

    @proves("F1", "T7")
    async def test_a_refused_outcome_does_not_change_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            job = await claim_job(store, job_id)
            assert await finish_run(store, replace(job, lease="another"), Done()) == set()
            assert await finish_run(store, replace(job, lease="another"), Discard()) == set()
            assert await finish_run(store, job, Crashed("ada", 9), now=AT) == set()
            assert await read_schedule(store) == old

    @proves("T7")
    @pytest.mark.parametrize("how", [Done(), Discard()], ids=repr)
    async def test_a_detached_job_does_not_change_the_schedule(self, how: Any) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            (detached,) = await put(store, tick_job(old, later(-3600), detached=True))
            await run_job(store, detached, how)
            if isinstance(how, Discard):
                await act(store, Action.RETRY, detached)
            await act(store, Action.DELETE, detached)
            assert await read_schedule(store) == old
            assert old.active == (job_id,)

    @proves("T7")
    async def test_overlapping_runs_are_counted_even_if_they_are_not_active(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, spec={"overlap": "allow"})
            assert (await fire(store, next_revision(old, active=(), unlisted=1))).stands
            await run_job(store, job_id)
            assert ((await read_schedule(store)).completed, (await read_schedule(store)).unlisted) == (1, 0)

    @proves("T7", "V1")
    async def test_concurrent_ends_are_all_counted_for_the_schedule(self) -> None:
        async with self.opened() as store:
            await launch(store, spec={"overlap": "allow"}, jobs=20)
            await beat(store)
            jobs = (await claim(store, limit=20)).jobs
            await asyncio.gather(*(finish_run(store, job, Done(), now=AT) for job in jobs))
            found = await read_schedule(store)
            assert (found.completed, found.active, found.revision) == (20, (), 21)

    @proves("F5", "T7")
    @pytest.mark.parametrize("first", [Done(), Discard()], ids=repr)
    async def test_outcomes_of_a_call_change_the_schedule_in_order(self, first: Any) -> None:
        async with self.opened() as store:
            old, ids = await launch(store, spec={"overlap": "allow"}, jobs=2)
            await beat(store)
            jobs = (await claim(store)).jobs
            both = (first, Discard() if isinstance(first, Done) else Done())
            await store.finish([decide(job, how, now=AT) for job, how in zip(jobs, both, strict=True)])
            states = [State.COMPLETED if isinstance(how, Done) else State.DEAD for how in both]
            once = after_job_ended(old, ids[0], states[0], AT)
            assert await read_schedule(store) == after_job_ended(once, ids[1], states[1], AT)

    @proves("T7")
    async def test_runs_of_several_schedules_in_one_call_change_their_own_schedule(self) -> None:
        async with self.opened() as store:
            names = ("a", "a:1", "ü")
            old = {name: await launch(store, name) for name in names}
            (loose,) = await put(store, new_job())
            await beat(store)
            jobs = (await claim(store)).jobs
            assert loose in {job.id for job in jobs}
            await store.finish([decide(job, Done("1"), now=AT) for job in jobs])
            for name, (schedule, (job_id,)) in old.items():
                assert await read_schedule(store, name) == after_job_ended(schedule, job_id, State.COMPLETED, AT, "1")

    # ends without a run

    @proves("T7")
    async def test_a_cancelled_waiting_job_has_ended_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await act(store, Action.CANCEL, job_id, now=AT)
            assert await read_schedule(store) == after_job_ended(old, job_id, State.CANCELLED, AT)
            await act(store, Action.CANCEL, job_id, now=later(2))
            assert (await read_schedule(store)).revision == old.revision + 1

    @proves("C10", "T7")
    async def test_a_job_expired_by_a_claim_has_failed_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            await beat(store)
            assert (await claim(store, tasks=["another"], now=AT)).expired == [job_id]
            found = await read_schedule(store)
            assert found == after_job_ended(old, job_id, State.EXPIRED, AT)
            assert found.failed == 1

    @proves("E8", "T7")
    async def test_a_job_expired_by_an_enqueue_has_failed_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            await put(store, new_job(idempotency_key=tick_job(old).idempotency_key), now=AT)
            assert await read_schedule(store) == after_job_ended(old, job_id, State.EXPIRED, AT)

    @proves("E2", "V1")
    async def test_a_refused_batch_does_not_change_the_schedule(self) -> None:
        async with self.opened() as store:
            old, _ = await launch(store, job={"expires_at": AT})
            (held,) = await put(store, new_job(unique_key="k"))
            batch = [
                new_job(idempotency_key=tick_job(old).idempotency_key),
                new_job(unique_key="k", on_conflict="raise"),
            ]
            assert {answer.status for answer in await store.enqueue(batch, now=AT)} == {"refused"}
            assert await read_schedule(store) == old
            assert (await store.due(now=later(3600), limit=9)).schedules == [old]
            assert len(await all_jobs(store)) == 2
            assert held

    @proves("A2", "T7")
    @pytest.mark.parametrize("action", [Action.CANCEL, Action.PAUSE, Action.UPDATE])
    async def test_a_refused_action_on_an_expired_job_does_not_change_the_schedule(self, action: Action) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            assert (await act(store, action, job_id, now=AT, update=Update(priority=1))).done == []
            assert await read_schedule(store) == old

    @proves("A2", "T7")
    async def test_a_retried_job_past_its_expires_at_has_not_ended_for_the_schedule(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            assert (await act(store, Action.RETRY, job_id, now=AT)).done == [job_id]
            assert (await read_schedule(store)).active == old.active

    @proves("T7")
    @pytest.mark.parametrize("action", [Action.PAUSE, Action.UPDATE])
    async def test_a_change_that_does_not_end_a_job_does_not_change_the_schedule(self, action: Action) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            assert (await act(store, action, job_id, update=Update(priority=5))).done == [job_id]
            assert await read_schedule(store) == old
            await act(store, Action.RESUME, job_id)
            assert await read_schedule(store) == old

    @proves("T7")
    async def test_a_job_deleted_before_it_was_final_is_not_counted(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            assert (await act(store, Action.DELETE, job_id, now=AT)).done == [job_id]
            found = await read_schedule(store)
            assert found == after_job_ended(old, job_id, None, AT)
            assert (found.active, found.completed, found.failed, found.last_outcome) == ((), 0, 0, None)

    @proves("T7")
    async def test_deleting_a_final_job_does_not_change_the_schedule(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            await run_job(store, job_id)
            before = await read_schedule(store)
            await act(store, Action.DELETE, job_id, now=later(2))
            assert await read_schedule(store) == before

    @proves("T7")
    async def test_a_change_by_filter_changes_the_schedule_for_every_job(self) -> None:
        async with self.opened() as store:
            await launch(store, spec={"overlap": "allow"}, jobs=5)
            await store.change(Action.CANCEL, Filter(schedules=("hourly",)), now=AT, limit=3)
            assert len((await read_schedule(store)).active) == 2

    # revived jobs

    @proves("T7")
    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_revived_job_is_an_active_run_of_its_schedule_again(self, state: State) -> None:
        async with self.opened() as store:
            _, (job_id, other) = await launch(store, jobs=2, job={"expires_at": later(50)})
            if state is State.DEAD:
                await run_job(store, job_id, Discard())
                await act(store, Action.PAUSE, other)
            elif state is State.CANCELLED:
                await act(store, Action.CANCEL, job_id)
            else:
                await act(store, Action.PAUSE, other)
                await beat(store)
                await claim(store, tasks=["another"], now=later(50))
            before = await read_schedule(store)
            assert (before.active, (await read_job(store, job_id)).state) == ((other,), state)
            assert (await act(store, Action.RETRY, job_id, now=later(51))).done == [job_id]
            found = await read_schedule(store)
            assert found == after_job_revived(before, job_id)
            assert set(found.active) == {job_id, other}

    @proves("T7")
    async def test_a_revived_job_ends_again_for_the_schedule(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            await run_job(store, job_id, Discard())
            await act(store, Action.RETRY, job_id, now=later(2))
            job = await claim_job(store, job_id, now=later(2))
            await finish_run(store, job, Done(), now=later(3))
            found = await read_schedule(store)
            assert (found.failed, found.completed, found.active, found.failures) == (1, 1, (), 0)

    # jobs that do not count

    @proves("T7")
    async def test_a_job_that_is_not_active_does_not_change_the_schedule(self) -> None:
        async with self.opened() as store:
            new = a_schedule()
            job = tick_job(new)
            await fire(store, new, jobs=(job,))
            await run_job(store, job.id)
            assert await read_schedule(store) == new

    @proves("T7", "V2")
    async def test_a_job_without_an_existing_schedule_ends_without_error(self) -> None:
        async with self.opened() as store:
            _, (job_id, again) = await launch(store, jobs=2)
            await store.drop_schedules(["hourly"])
            await beat(store)
            for job in (await claim(store)).jobs:
                await finish_run(store, job, Discard(), now=AT)
            await act(store, Action.RETRY, job_id)
            await act(store, Action.DELETE, again)
            assert await store.schedules(limit=9) == []

    # schedules that wait on it

    @proves("T8")
    async def test_a_completed_run_releases_the_schedules_that_wait_on_it(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            first, second = await waiting_schedule(store), await waiting_schedule(store, name="another")
            other = await waiting_schedule(store, "else", name="else")
            await run_job(store, job_id)
            assert await read_schedule(store, "dependent") == after_dependency_succeeded(first, AT)
            assert await read_schedule(store, "another") == after_dependency_succeeded(second, AT)
            assert await read_schedule(store, "else") == other
            assert (await read_schedule(store, "dependent")).due_at == AT

    @proves("T8")
    async def test_a_completed_run_with_run_notes_releases_waiting_schedules(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            held = await waiting_schedule(store)
            await run_job(store, job_id, account=RunNotes(Items(1)))
            assert await read_schedule(store, "dependent") == after_dependency_succeeded(held, AT)

    @proves("T8")
    @pytest.mark.parametrize("how", [Discard(), Cancel(), Retry(1)], ids=repr)
    async def test_a_run_that_does_not_complete_releases_no_schedule(self, how: Any) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            held = await waiting_schedule(store)
            await run_job(store, job_id, how)
            assert await read_schedule(store, "dependent") == held

    @proves("T8")
    async def test_a_job_that_is_not_active_releases_no_schedule(self) -> None:
        async with self.opened() as store:
            new, held = a_schedule(), await waiting_schedule(store)
            job = tick_job(new)
            await fire(store, new, jobs=(job,))
            await run_job(store, job.id)
            assert await read_schedule(store, "dependent") == held

    @proves("T8")
    async def test_a_paused_schedule_is_not_released(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            held = await waiting_schedule(store, paused_at=NOW, due_at=None)
            await run_job(store, job_id)
            assert await read_schedule(store, "dependent") == held

    @proves("T8")
    async def test_a_schedule_that_no_longer_waits_is_not_released(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            free = next_revision(await waiting_schedule(store), waits_on=None, held_at=None)
            await fire(store, free)
            await run_job(store, job_id)
            assert await read_schedule(store, "dependent") == free
