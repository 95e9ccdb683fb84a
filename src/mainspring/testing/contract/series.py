"""What the life of a job means for the schedule that made it: told once, by whatever verb, in the same step."""

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
    beat,
    bumped,
    claim,
    everything,
    fire,
    later,
    launch,
    new_job,
    put,
    row,
    run_again,
    see,
    settle,
    tick_job,
)

ENDINGS: list[tuple[Any, dict[str, Any], State]] = [
    (Done('"é"'), {}, State.COMPLETED),
    (Done('"é"'), {"account": RunNotes(Items(3, 1))}, State.COMPLETED),
    (Done('"é"'), {"failure": Failure("ValueError", "half")}, State.COMPLETED),
    (Discard("no"), {}, State.DEAD),
    (Cancel("no"), {}, State.CANCELLED),
]
AT = later(1)


async def run(store: Store, job_id: JobId, ended: Any = None, *, now: Any = AT, **fields: Any) -> None:
    """The job runs, and ends so."""
    job = await run_again(store, job_id)
    assert await settle(store, job, Done() if ended is None else ended, now=now, **fields) == {job_id}


async def waiting(store: Store, on: str = "hourly", name: str = "dependent", **fields: Any) -> Schedule:
    """A schedule whose tick is held until another one has succeeded."""
    given: dict[str, Any] = {"held_at": NOW, "waits_on": on, "due_at": later(3600), "next_run_at": later(3600)}
    new = a_schedule(name, said={"depends_on": (on,)}, **{**given, **fields})
    assert (await fire(store, new)).stands
    return new


class SeriesContract(Contract):
    # a run's end

    @pytest.mark.parametrize(("how", "fields", "state"), ENDINGS, ids=str)
    async def test_a_run_that_ends_its_job_ends_it_for_the_schedule(
        self, how: Any, fields: dict[str, Any], state: State
    ) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await run(store, job_id, how, **fields)
            assert (await see(store, job_id)).state is state
            result = '"é"' if state is State.COMPLETED else None
            assert await row(store) == after_job_ended(old, job_id, state, AT, result)
            assert (await row(store)).active == ()

    @pytest.mark.parametrize("how", [Retry(5), Snooze(5), Released(), ValueError("no")], ids=repr)
    async def test_a_run_after_which_the_job_goes_on_tells_nothing(self, how: Any) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await run(store, job_id, how)
            assert await row(store) == old

    async def test_a_run_that_fails_for_the_last_time_is_a_failure(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await run(store, job_id, ValueError("no"), policy=Policy(max_retries=0))
            found = await row(store)
            assert found == after_job_ended(old, job_id, State.DEAD, AT)
            assert (found.failed, found.failures, found.last_outcome) == (1, 1, State.DEAD)

    async def test_a_run_that_was_to_be_cancelled_and_would_run_again_has_been_cancelled(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            job = await run_again(store, job_id)
            await act(store, Action.CANCEL, job_id)
            assert await row(store) == old
            await settle(store, job, Retry(5), now=AT)
            assert await row(store) == after_job_ended(old, job_id, State.CANCELLED, AT)

    async def test_a_run_whose_worker_died_ends_it_when_there_is_no_other_try(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            job = await run_again(store, job_id)
            await beat(store, until=NOW)
            await settle(store, job, Crashed("ada", 1), now=AT)
            assert await row(store) == after_job_ended(old, job_id, State.DEAD, AT)

    async def test_an_outcome_told_twice_counts_once(self) -> None:
        async with self.opened() as store:
            old, (job_id, other) = await launch(store, jobs=2)
            job = await run_again(store, job_id)
            for _ in range(3):
                assert await settle(store, job, Done(), now=AT) == {job_id}
            found = await row(store)
            assert (found.completed, found.revision, found.active) == (1, old.revision + 1, (other,))

    @pytest.mark.parametrize("how", [Done(), Discard()], ids=repr)
    async def test_an_outcome_told_twice_in_one_batch_counts_once(self, how: Any) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            outcome = decide(await run_again(store, job_id), how, now=AT)
            assert await store.finish([outcome, outcome]) == {job_id}
            assert (await row(store)).revision == old.revision + 1

    @pytest.mark.parametrize("order", ["dc", "cd", "cdc", "dcd", "ddc", "ccdd"])
    async def test_ends_of_one_batch_are_told_to_their_schedule_in_order(self, order: str) -> None:
        async with self.opened() as store:
            old, ids = await launch(store, said={"overlap": "allow"}, jobs=len(order))
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
            assert await row(store) == wanted

    async def test_an_outcome_that_is_refused_tells_nothing(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            job = await run_again(store, job_id)
            assert await settle(store, replace(job, lease="another"), Done()) == set()
            assert await settle(store, replace(job, lease="another"), Discard()) == set()
            assert await settle(store, job, Crashed("ada", 9), now=AT) == set()
            assert await row(store) == old

    @pytest.mark.parametrize("how", [Done(), Discard()], ids=repr)
    async def test_a_job_made_beside_the_series_tells_nothing(self, how: Any) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            (beside,) = await put(store, tick_job(old, later(-3600), detached=True))
            await run(store, beside, how)
            if isinstance(how, Discard):
                await act(store, Action.RETRY, beside)
            await act(store, Action.DELETE, beside)
            assert await row(store) == old
            assert old.active == (job_id,)

    async def test_runs_that_may_overlap_are_counted_even_if_the_schedule_has_lost_sight_of_them(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, said={"overlap": "allow"})
            assert (await fire(store, bumped(old, active=(), unlisted=1))).stands
            await run(store, job_id)
            assert ((await row(store)).completed, (await row(store)).unlisted) == (1, 0)

    async def test_many_that_end_at_once_are_all_counted(self) -> None:
        async with self.opened() as store:
            await launch(store, said={"overlap": "allow"}, jobs=20)
            await beat(store)
            jobs = (await claim(store, limit=20)).jobs
            await asyncio.gather(*(settle(store, job, Done(), now=AT) for job in jobs))
            found = await row(store)
            assert (found.completed, found.active, found.revision) == (20, (), 21)

    @pytest.mark.parametrize("first", [Done(), Discard()], ids=repr)
    async def test_outcomes_of_a_batch_are_told_in_order(self, first: Any) -> None:
        async with self.opened() as store:
            old, ids = await launch(store, said={"overlap": "allow"}, jobs=2)
            await beat(store)
            jobs = (await claim(store)).jobs
            both = (first, Discard() if isinstance(first, Done) else Done())
            await store.finish([decide(job, how, now=AT) for job, how in zip(jobs, both, strict=True)])
            states = [State.COMPLETED if isinstance(how, Done) else State.DEAD for how in both]
            once = after_job_ended(old, ids[0], states[0], AT)
            assert await row(store) == after_job_ended(once, ids[1], states[1], AT)

    async def test_runs_of_several_schedules_in_one_batch_are_told_each_to_its_own(self) -> None:
        async with self.opened() as store:
            names = ("a", "a:1", "ü")
            old = {name: await launch(store, name) for name in names}
            (loose,) = await put(store, new_job())
            await beat(store)
            jobs = (await claim(store)).jobs
            assert loose in {job.id for job in jobs}
            await store.finish([decide(job, Done("1"), now=AT) for job in jobs])
            for name, (schedule, (job_id,)) in old.items():
                assert await row(store, name) == after_job_ended(schedule, job_id, State.COMPLETED, AT, "1")

    # without a run

    async def test_a_cancel_of_a_waiting_job_ends_it(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            await act(store, Action.CANCEL, job_id, now=AT)
            assert await row(store) == after_job_ended(old, job_id, State.CANCELLED, AT)
            await act(store, Action.CANCEL, job_id, now=later(2))
            assert (await row(store)).revision == old.revision + 1

    async def test_a_job_that_a_claim_finds_expired_has_failed(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            await beat(store)
            assert (await claim(store, tasks=["another"], now=AT)).expired == [job_id]
            found = await row(store)
            assert found == after_job_ended(old, job_id, State.EXPIRED, AT)
            assert found.failed == 1

    async def test_a_job_that_another_request_finds_expired_has_failed(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            await put(store, new_job(idempotency_key=tick_job(old).idempotency_key), now=AT)
            assert await row(store) == after_job_ended(old, job_id, State.EXPIRED, AT)

    async def test_a_batch_that_is_refused_tells_nothing(self) -> None:
        async with self.opened() as store:
            old, _ = await launch(store, job={"expires_at": AT})
            (held,) = await put(store, new_job(unique_key="k"))
            batch = [
                new_job(idempotency_key=tick_job(old).idempotency_key),
                new_job(unique_key="k", on_conflict="raise"),
            ]
            assert {answer.status for answer in await store.enqueue(batch, now=AT)} == {"refused"}
            assert await row(store) == old
            assert (await store.due(now=later(3600), limit=9)).schedules == [old]
            assert len(await everything(store)) == 2
            assert held

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.PAUSE, Action.UPDATE])
    async def test_what_cannot_be_done_to_an_expired_job_tells_nothing(self, action: Action) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            assert (await act(store, action, job_id, now=AT, update=Update(priority=1))).done == []
            assert await row(store) == old

    async def test_a_job_that_expired_unseen_and_is_retried_has_never_ended(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store, job={"expires_at": AT})
            assert (await act(store, Action.RETRY, job_id, now=AT)).done == [job_id]
            assert (await row(store)).active == old.active

    @pytest.mark.parametrize("action", [Action.PAUSE, Action.UPDATE])
    async def test_a_change_of_a_job_that_does_not_end_it_tells_nothing(self, action: Action) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            assert (await act(store, action, job_id, update=Update(priority=5))).done == [job_id]
            assert await row(store) == old
            await act(store, Action.RESUME, job_id)
            assert await row(store) == old

    async def test_a_job_that_is_deleted_before_it_was_final_counts_as_nothing(self) -> None:
        async with self.opened() as store:
            old, (job_id,) = await launch(store)
            assert (await act(store, Action.DELETE, job_id, now=AT)).done == [job_id]
            found = await row(store)
            assert found == after_job_ended(old, job_id, None, AT)
            assert (found.active, found.completed, found.failed, found.last_outcome) == ((), 0, 0, None)

    async def test_a_final_job_that_is_deleted_tells_nothing(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            await run(store, job_id)
            before = await row(store)
            await act(store, Action.DELETE, job_id, now=later(2))
            assert await row(store) == before

    async def test_a_change_by_filter_tells_of_every_job(self) -> None:
        async with self.opened() as store:
            await launch(store, said={"overlap": "allow"}, jobs=5)
            await store.change(Action.CANCEL, Filter(schedules=("hourly",)), now=AT, limit=3)
            assert len((await row(store)).active) == 2

    # back to work

    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_job_that_is_put_back_to_work_is_one_of_its_runs_again(self, state: State) -> None:
        async with self.opened() as store:
            _, (job_id, other) = await launch(store, jobs=2, job={"expires_at": later(50)})
            if state is State.DEAD:
                await run(store, job_id, Discard())
                await act(store, Action.PAUSE, other)
            elif state is State.CANCELLED:
                await act(store, Action.CANCEL, job_id)
            else:
                await act(store, Action.PAUSE, other)
                await beat(store)
                await claim(store, tasks=["another"], now=later(50))
            before = await row(store)
            assert (before.active, (await see(store, job_id)).state) == ((other,), state)
            assert (await act(store, Action.RETRY, job_id, now=later(51))).done == [job_id]
            found = await row(store)
            assert found == after_job_revived(before, job_id)
            assert set(found.active) == {job_id, other}

    async def test_a_job_that_was_put_back_to_work_ends_once_more(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            await run(store, job_id, Discard())
            await act(store, Action.RETRY, job_id, now=later(2))
            job = await run_again(store, job_id, now=later(2))
            await settle(store, job, Done(), now=later(3))
            found = await row(store)
            assert (found.failed, found.completed, found.active, found.failures) == (1, 1, (), 0)

    # who hears of it

    async def test_a_job_that_is_none_of_its_runs_tells_nothing(self) -> None:
        async with self.opened() as store:
            new = a_schedule()
            job = tick_job(new)
            await fire(store, new, jobs=(job,))
            await run(store, job.id)
            assert await row(store) == new

    async def test_a_job_without_a_schedule_and_one_whose_schedule_is_gone_are_no_trouble(self) -> None:
        async with self.opened() as store:
            _, (job_id, again) = await launch(store, jobs=2)
            await store.drop_schedules(["hourly"])
            await beat(store)
            for job in (await claim(store)).jobs:
                await settle(store, job, Discard(), now=AT)
            await act(store, Action.RETRY, job_id)
            await act(store, Action.DELETE, again)
            assert await store.schedules(limit=9) == []

    # those who wait for it

    async def test_when_a_run_completes_the_schedules_that_wait_on_it_are_roused(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            first, second = await waiting(store), await waiting(store, name="another")
            other = await waiting(store, "else", name="else")
            await run(store, job_id)
            assert await row(store, "dependent") == after_dependency_succeeded(first, AT)
            assert await row(store, "another") == after_dependency_succeeded(second, AT)
            assert await row(store, "else") == other
            assert (await row(store, "dependent")).due_at == AT

    async def test_a_run_that_has_more_to_tell_rouses_them_too(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            held = await waiting(store)
            await run(store, job_id, account=RunNotes(Items(1)))
            assert await row(store, "dependent") == after_dependency_succeeded(held, AT)

    @pytest.mark.parametrize("how", [Discard(), Cancel(), Retry(1)], ids=repr)
    async def test_a_run_that_does_not_complete_rouses_nobody(self, how: Any) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            held = await waiting(store)
            await run(store, job_id, how)
            assert await row(store, "dependent") == held

    async def test_a_job_that_is_none_of_its_runs_rouses_nobody(self) -> None:
        async with self.opened() as store:
            new, held = a_schedule(), await waiting(store)
            job = tick_job(new)
            await fire(store, new, jobs=(job,))
            await run(store, job.id)
            assert await row(store, "dependent") == held

    async def test_one_that_is_paused_is_roused_by_nobody(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            held = await waiting(store, paused_at=NOW, due_at=None)
            await run(store, job_id)
            assert await row(store, "dependent") == held

    async def test_who_has_stopped_waiting_is_not_roused(self) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store)
            free = bumped(await waiting(store), waits_on=None, held_at=None)
            await fire(store, free)
            await run(store, job_id)
            assert await row(store, "dependent") == free
