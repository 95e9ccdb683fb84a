"""fire: the next revision of a schedule is written atomically with its jobs, ticks and cancels, once or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ...records.job import Action, Job, State
from ...schedule.record import Fired, Firing, Schedule, tick_key
from ...store import Store
from .build import (
    NOW,
    Contract,
    a_schedule,
    a_tick,
    act,
    all_jobs,
    beat,
    claim_ids,
    claim_job,
    fire,
    job_in_state,
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

NEW = a_schedule()
NOTHING: tuple[list[Schedule], list[Job], list[Any]] = ([], [], [])


async def all_of(store: Store) -> tuple[list[Schedule], list[Job], list[Any]]:
    return await store.schedules(limit=99), await all_jobs(store), await store.ticks("hourly", limit=99)


class FireContract(Contract):
    # revisions

    @proves("T2")
    async def test_the_first_revision_of_a_schedule_is_written(self) -> None:
        async with self.opened() as store:
            job = tick_job(NEW)
            assert await fire(store, NEW, jobs=(job,), ticks=(a_tick(1, job_id=job.id),)) == Fired(True)
            assert await read_schedule(store) == NEW
            assert await store.ticks("hourly", limit=9) == [a_tick(1, job_id=job.id)]
            made = await read_job(store, job.id)
            assert (made.state, made.run_at, made.created_at) == (State.PENDING, NOW, NOW)
            assert (made.schedule, made.scheduled_at, made.idempotency_key) == ("hourly", NOW, tick_key("hourly", NOW))

    @proves("V10")
    async def test_the_job_of_a_tick_can_be_claimed_and_knows_its_tick(self) -> None:
        async with self.opened() as store:
            job = tick_job(NEW, later(-5.000001), priority=3, tags=("x",), metadata={"é": 1})
            await fire(store, NEW, jobs=(job,))
            taken = await claim_job(store, job.id)
            assert (taken.schedule, taken.scheduled_at) == ("hourly", later(-5.000001))
            assert (taken.priority, taken.tags, taken.metadata) == (3, ("x",), {"é": 1})

    @proves("T2")
    async def test_the_next_revision_of_a_schedule_replaces_the_last(self) -> None:
        async with self.opened() as store:
            await fire(store, NEW)
            second = next_revision(NEW, next_run_at=later(5), due_at=later(6), note="other", fired=7)
            assert (await fire(store, second)).stands
            assert await read_schedule(store) == second

    @proves("T2", "T6")
    @pytest.mark.parametrize("revision", [0, 1, 3, 4])
    async def test_a_firing_with_another_revision_writes_nothing(self, revision: int) -> None:
        async with self.opened() as store:
            await fire(store, NEW, ticks=(a_tick(1),))
            await put(store, cancelled := new_job())
            before = await all_of(store)
            wrong = a_schedule(revision=revision, note="wrong")
            parts: dict[str, Any] = {"jobs": (tick_job(NEW),), "ticks": (a_tick(2),), "cancel": (cancelled.id,)}
            assert await fire(store, wrong, **parts) == Fired(False)
            assert await all_of(store) == before

    @proves("T2", "T6")
    async def test_a_later_revision_of_a_missing_schedule_writes_nothing(self) -> None:
        async with self.opened() as store:
            assert await fire(store, next_revision(NEW), jobs=(tick_job(NEW),), ticks=(a_tick(1),)) == Fired(False)
            assert await all_of(store) == NOTHING

    @proves("T2")
    async def test_a_repeated_firing_is_written_once(self) -> None:
        async with self.opened() as store:
            firing = Firing(schedule=NEW, jobs=(tick_job(NEW),), ticks=(a_tick(1),))
            assert (await store.fire([firing], now=NOW))[0].stands
            before = await all_of(store)
            assert await store.fire([firing], now=NOW) == [Fired(False)]
            assert await all_of(store) == before

    @proves("T2", "V1")
    async def test_one_of_many_concurrent_firings_of_a_revision_is_written(self) -> None:
        async with self.opened() as store:
            await fire(store, NEW)
            jobs = [tick_job(NEW) for _ in range(20)]
            tries = [
                fire(store, next_revision(NEW, note=job.id), jobs=(job,), ticks=(a_tick(1, job_id=job.id),))
                for job in jobs
            ]
            written = [done.stands for done in await asyncio.gather(*tries)]
            (only,) = await all_jobs(store)
            assert (written.count(True), jobs[written.index(True)].id) == (1, only.id)
            assert (await read_schedule(store)).note == only.id
            assert [tick.job_id for tick in await store.ticks("hourly", limit=9)] == [only.id]

    @proves("T2", "V1")
    async def test_one_of_many_concurrent_first_revisions_is_written(self) -> None:
        async with self.opened() as store:
            done = await asyncio.gather(*(fire(store, a_schedule(note=str(n))) for n in range(10)))
            assert sum(one.stands for one in done) == 1

    # several in one call

    @proves("T1")
    async def test_firings_of_one_call_are_written_independently(self) -> None:
        async with self.opened() as store:
            names = [f"n:{n}" for n in range(300)]
            await fire(store, a_schedule("n:7"))
            firings = [Firing(schedule=a_schedule(name), jobs=(tick_job(a_schedule(name)),)) for name in names]
            done = await store.fire(firings, now=NOW)
            assert [name for name, one in zip(names, done, strict=True) if not one.stands] == ["n:7"]
            assert len(await all_jobs(store)) == len(await store.schedules(limit=999)) - 1 == 299
            assert await store.fire([], now=NOW) == []

    @proves("T1")
    async def test_firings_of_one_call_are_written_in_order(self) -> None:
        async with self.opened() as store:
            second, third = next_revision(NEW, note="2"), next_revision(next_revision(NEW), note="3")
            firings = [Firing(schedule=one) for one in (NEW, third, second, third, second)]
            assert [one.stands for one in await store.fire(firings, now=NOW)] == [True, False, True, True, False]
            assert (await read_schedule(store)).note == "3"

    @proves("T1", "T3")
    async def test_a_firing_conflicts_with_the_keys_of_earlier_firings_of_its_call(self) -> None:
        async with self.opened() as store:
            key = tick_key("a", NOW)
            rows = [a_schedule(name) for name in ("a", "b", "c")]
            jobs = [tick_job(rows[0]), tick_job(rows[1], idempotency_key=key), tick_job(rows[2])]
            firings = [Firing(schedule=row, jobs=(job,)) for row, job in zip(rows, jobs, strict=True)]
            assert await store.fire(firings, now=NOW) == [Fired(True), Fired(False, (key,)), Fired(True)]
            assert [job.id for job in await all_jobs(store)] == [jobs[0].id, jobs[2].id]
            assert [row.name for row in await store.schedules(limit=9)] == ["a", "c"]

    @proves("T1", "T2")
    async def test_a_firing_reads_the_revisions_of_earlier_firings_of_its_call(self) -> None:
        async with self.opened() as store:
            firings = [
                Firing(schedule=a_schedule("a")),
                Firing(schedule=a_schedule("b"), reads=(("a", 0),)),
                Firing(schedule=a_schedule("c"), reads=(("a", 1),)),
                Firing(schedule=next_revision(a_schedule("a"))),
                Firing(schedule=a_schedule("d"), reads=(("a", 1),)),
            ]
            assert [one.stands for one in await store.fire(firings, now=NOW)] == [True, False, True, True, False]
            assert [row.name for row in await store.schedules(limit=9)] == ["a", "c"]

    @proves("T1", "T4")
    async def test_jobs_that_a_firing_cancels_are_cancelled_for_later_firings_of_its_call(self) -> None:
        async with self.opened() as store:
            old, (waiting,) = await launch(store)
            key = tick_key("hourly", later(0))
            other = a_schedule("other")
            # The cancel ends a run of the schedule, which increments its revision.
            early, late = (
                next_revision(next_revision(old), note="early"),
                next_revision(next_revision(next_revision(old)), note="late", active=()),
            )
            firings = [
                Firing(schedule=next_revision(old), cancel=(waiting,)),
                Firing(schedule=other, jobs=(again := tick_job(other, idempotency_key=key),)),
                Firing(schedule=early),
                Firing(schedule=late),
            ]
            assert [one.stands for one in await store.fire(firings, now=NOW)] == [True, True, False, True]
            assert (await read_job(store, waiting)).state is State.CANCELLED
            assert (await read_job(store, again.id)).state is State.PENDING
            assert ((await read_schedule(store)).note, (await read_schedule(store)).active) == ("late", ())

    @proves("V1")
    async def test_a_firing_makes_all_its_jobs(self) -> None:
        async with self.opened() as store:
            jobs = tuple(tick_job(NEW, later(n)) for n in range(100))
            await fire(store, NEW, jobs=jobs, ticks=tuple(a_tick(n) for n in range(1, 101)))
            assert [job.id for job in await all_jobs(store)] == [job.id for job in jobs]
            assert len(await store.ticks("hourly", limit=999)) == 100

    # reads

    @proves("T2")
    @pytest.mark.parametrize("reads", [(("a", 2),), (("b", 0),), (("a", 2), ("b", 0))], ids=str)
    async def test_a_firing_is_written_if_the_schedules_it_read_are_unchanged(self, reads: Any) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule("a"))
            await fire(store, next_revision(a_schedule("a")))
            assert (await fire(store, NEW, reads=reads)).stands

    @proves("T2", "T6")
    @pytest.mark.parametrize(
        "reads", [(("a", 1),), (("a", 3),), (("a", 0),), (("b", 1),), (("a", 2), ("b", 1))], ids=str
    )
    async def test_a_firing_writes_nothing_if_a_schedule_it_read_has_changed(self, reads: Any) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule("a"))
            await fire(store, next_revision(a_schedule("a")))
            before = await all_of(store)
            assert await fire(store, NEW, reads=reads, jobs=(tick_job(NEW),), ticks=(a_tick(1),)) == Fired(False)
            assert await all_of(store) == before

    @proves("T2", "T7")
    async def test_the_end_of_a_run_changes_the_revision_of_its_schedule(self) -> None:
        async with self.opened() as store:
            first, (job_id,) = await launch(store, "a")
            await act(store, Action.CANCEL, job_id)
            assert not (await fire(store, NEW, reads=(("a", first.revision),))).stands
            assert not (await fire(store, next_revision(first))).stands

    # keys

    @proves("T3", "T6")
    async def test_a_held_key_refuses_the_firing_and_is_named(self) -> None:
        async with self.opened() as store:
            held, free = tick_job(NEW, later(1)), tick_job(NEW, later(2))
            await put(store, held)
            before = await all_of(store)
            again = tick_job(NEW, later(1))
            done = await fire(store, NEW, jobs=(free, again), ticks=(a_tick(1), a_tick(2)))
            assert done == Fired(False, (tick_key("hourly", later(1)),))
            assert await all_of(store) == before

    @proves("T6")
    async def test_a_refused_firing_names_every_held_key(self) -> None:
        async with self.opened() as store:
            await put(store, *(tick_job(NEW, later(n)) for n in (1, 3)), new_job(unique_key="u"))
            jobs = (*(tick_job(NEW, later(n)) for n in (1, 2, 3)), new_job(unique_key="u"))
            done = await fire(store, NEW, jobs=jobs)
            assert done == Fired(False, (tick_key("hourly", later(1)), tick_key("hourly", later(3)), "u"))

    @proves("T3")
    async def test_two_jobs_of_a_firing_cannot_share_a_key(self) -> None:
        async with self.opened() as store:
            assert await fire(store, NEW, jobs=(tick_job(NEW), tick_job(NEW))) == Fired(
                False, (tick_key("hourly", NOW),)
            )
            assert await all_of(store) == NOTHING

    @proves("T6")
    async def test_a_wrong_revision_is_reported_before_held_keys(self) -> None:
        async with self.opened() as store:
            await fire(store, NEW, jobs=(tick_job(NEW),))
            assert await fire(store, NEW, jobs=(tick_job(NEW),)) == Fired(False)

    @proves("E7", "T3")
    @pytest.mark.parametrize("state", [State.COMPLETED, State.RUNNING, State.PAUSED])
    async def test_a_tick_with_a_job_gets_no_second_job(self, state: State) -> None:
        async with self.opened() as store:
            await job_in_state(store, state, idempotency_key=tick_key("hourly", NOW))
            assert (await fire(store, NEW, jobs=(tick_job(NEW),))).held == (tick_key("hourly", NOW),)
            assert await store.schedules(limit=9) == []

    @proves("E6", "T3")
    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_tick_whose_job_did_not_complete_may_get_another_job(self, state: State) -> None:
        async with self.opened() as store:
            await job_in_state(store, state, idempotency_key=tick_key("hourly", NOW))
            assert (await fire(store, NEW, jobs=(tick_job(NEW),))).stands
            assert len(await all_jobs(store)) == 2

    @proves("E8", "T3")
    async def test_a_key_holder_past_its_expires_at_is_expired_by_a_firing(self) -> None:
        async with self.opened() as store:
            (old,) = await put(store, tick_job(NEW, expires_at=later(5)))
            assert (await fire(store, NEW, jobs=(tick_job(NEW),), now=later(4.999999))).stands is False
            assert (await fire(store, NEW, jobs=(tick_job(NEW),), now=later(5))).stands
            gone = await read_job(store, old)
            assert (gone.state, gone.finished_at) == (State.EXPIRED, later(5))

    # cancels

    @proves("T4")
    async def test_a_firing_cancels_waiting_jobs_and_asks_running_ones_to_stop(self) -> None:
        async with self.opened() as store:
            old, (running, waiting) = await launch(store, jobs=2)
            assert await claim_ids(store, limit=1) == [running]
            assert (await fire(store, next_revision(old), cancel=(running, waiting), now=later(3))).stands
            gone = await read_job(store, waiting)
            assert (gone.state, gone.finished_at) == (State.CANCELLED, later(3))
            reason = gone.cancel_reason or ""
            assert "hourly" in reason
            assert (await read_job(store, running)).state is State.RUNNING
            assert (await beat(store)).cancels == {running: reason}

    @proves("T4")
    async def test_a_firing_cancels_no_other_jobs_and_ignores_final_ones(self) -> None:
        async with self.opened() as store:
            done = await job_in_state(store, State.COMPLETED)
            old, (mine, other) = await launch(store, jobs=2)
            assert (await fire(store, next_revision(old), cancel=(mine, done.id, "unknown"))).stands
            assert (await read_job(store, other)).state is State.PENDING
            assert await read_job(store, done.id) == done

    @proves("T4", "T7")
    async def test_jobs_that_a_firing_cancels_have_ended_for_its_schedule(self) -> None:
        async with self.opened() as store:
            old, (first, second) = await launch(store, spec={"overlap": "cancel"}, jobs=2)
            await fire(store, next_revision(old, held_at=NOW, note="mine"), cancel=(first,), now=later(3))
            found = await read_schedule(store)
            assert (found.active, found.revision, found.note) == ((second,), old.revision + 2, "mine")
            await fire(store, next_revision(found), cancel=(second,), now=later(4))
            assert (await read_schedule(store)).due_at == later(4)

    @proves("T4")
    async def test_a_firing_may_create_and_cancel_the_same_job(self) -> None:
        async with self.opened() as store:
            job = tick_job(NEW)
            await fire(store, a_schedule(active=(job.id,)), jobs=(job,), cancel=(job.id,))
            assert (await read_job(store, job.id)).state is State.CANCELLED
            assert (await read_schedule(store)).active == ()
