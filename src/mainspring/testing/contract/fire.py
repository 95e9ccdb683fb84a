"""fire: a schedule's next revision with its jobs, ticks and cancels, in one step and once, or nothing."""

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
    beat,
    bring,
    bumped,
    claimed,
    everything,
    fire,
    later,
    launch,
    new_job,
    put,
    row,
    run_again,
    see,
    tick_job,
)

NEW = a_schedule()
NOTHING: tuple[list[Schedule], list[Job], list[Any]] = ([], [], [])


async def all_of(store: Store) -> tuple[list[Schedule], list[Job], list[Any]]:
    return await store.schedules(limit=99), await everything(store), await store.ticks("hourly", limit=99)


class FireContract(Contract):
    # what stands

    async def test_the_first_revision_is_written_where_there_is_none(self) -> None:
        async with self.opened() as store:
            job = tick_job(NEW)
            assert await fire(store, NEW, jobs=(job,), ticks=(a_tick(1, job_id=job.id),)) == Fired(True)
            assert await row(store) == NEW
            assert await store.ticks("hourly", limit=9) == [a_tick(1, job_id=job.id)]
            made = await see(store, job.id)
            assert (made.state, made.run_at, made.created_at) == (State.PENDING, NOW, NOW)
            assert (made.schedule, made.scheduled_at, made.idempotency_key) == ("hourly", NOW, tick_key("hourly", NOW))

    async def test_the_job_of_a_tick_can_be_claimed_and_knows_its_tick(self) -> None:
        async with self.opened() as store:
            job = tick_job(NEW, later(-5.000001), priority=3, tags=("x",), metadata={"é": 1})
            await fire(store, NEW, jobs=(job,))
            taken = await run_again(store, job.id)
            assert (taken.schedule, taken.scheduled_at) == ("hourly", later(-5.000001))
            assert (taken.priority, taken.tags, taken.metadata) == (3, ("x",), {"é": 1})

    async def test_the_next_revision_is_written_over_the_one_before(self) -> None:
        async with self.opened() as store:
            await fire(store, NEW)
            second = bumped(NEW, next_run_at=later(5), due_at=later(6), note="other", fired=7)
            assert (await fire(store, second)).stands
            assert await row(store) == second

    @pytest.mark.parametrize("revision", [0, 1, 3, 4])
    async def test_any_other_revision_writes_nothing_at_all(self, revision: int) -> None:
        async with self.opened() as store:
            await fire(store, NEW, ticks=(a_tick(1),))
            await put(store, cancelled := new_job())
            before = await all_of(store)
            wrong = a_schedule(revision=revision, note="wrong")
            parts: dict[str, Any] = {"jobs": (tick_job(NEW),), "ticks": (a_tick(2),), "cancel": (cancelled.id,)}
            assert await fire(store, wrong, **parts) == Fired(False)
            assert await all_of(store) == before

    async def test_a_later_revision_of_a_schedule_that_is_not_there_writes_nothing(self) -> None:
        async with self.opened() as store:
            assert await fire(store, bumped(NEW), jobs=(tick_job(NEW),), ticks=(a_tick(1),)) == Fired(False)
            assert await all_of(store) == NOTHING

    async def test_a_firing_told_twice_stands_once(self) -> None:
        async with self.opened() as store:
            firing = Firing(schedule=NEW, jobs=(tick_job(NEW),), ticks=(a_tick(1),))
            assert (await store.fire([firing], now=NOW))[0].stands
            before = await all_of(store)
            assert await store.fire([firing], now=NOW) == [Fired(False)]
            assert await all_of(store) == before

    async def test_of_many_who_fire_the_same_revision_one_does(self) -> None:
        async with self.opened() as store:
            await fire(store, NEW)
            jobs = [tick_job(NEW) for _ in range(20)]
            tries = [
                fire(store, bumped(NEW, note=job.id), jobs=(job,), ticks=(a_tick(1, job_id=job.id),)) for job in jobs
            ]
            stood = [done.stands for done in await asyncio.gather(*tries)]
            (only,) = await everything(store)
            assert (stood.count(True), jobs[stood.index(True)].id) == (1, only.id)
            assert (await row(store)).note == only.id
            assert [tick.job_id for tick in await store.ticks("hourly", limit=9)] == [only.id]

    async def test_of_many_who_make_the_first_revision_one_does(self) -> None:
        async with self.opened() as store:
            done = await asyncio.gather(*(fire(store, a_schedule(note=str(n))) for n in range(10)))
            assert sum(one.stands for one in done) == 1

    # several in one call

    async def test_firings_stand_each_for_itself(self) -> None:
        async with self.opened() as store:
            names = [f"n:{n}" for n in range(300)]
            await fire(store, a_schedule("n:7"))
            firings = [Firing(schedule=a_schedule(name), jobs=(tick_job(a_schedule(name)),)) for name in names]
            done = await store.fire(firings, now=NOW)
            assert [name for name, one in zip(names, done, strict=True) if not one.stands] == ["n:7"]
            assert len(await everything(store)) == len(await store.schedules(limit=999)) - 1 == 299
            assert await store.fire([], now=NOW) == []

    async def test_firings_are_written_in_order(self) -> None:
        async with self.opened() as store:
            second, third = bumped(NEW, note="2"), bumped(bumped(NEW), note="3")
            firings = [Firing(schedule=one) for one in (NEW, third, second, third, second)]
            assert [one.stands for one in await store.fire(firings, now=NOW)] == [True, False, True, True, False]
            assert (await row(store)).note == "3"

    async def test_firings_of_one_call_meet_the_keys_of_those_before_them(self) -> None:
        async with self.opened() as store:
            key = tick_key("a", NOW)
            rows = [a_schedule(name) for name in ("a", "b", "c")]
            jobs = [tick_job(rows[0]), tick_job(rows[1], idempotency_key=key), tick_job(rows[2])]
            firings = [Firing(schedule=row, jobs=(job,)) for row, job in zip(rows, jobs, strict=True)]
            assert await store.fire(firings, now=NOW) == [Fired(True), Fired(False, (key,)), Fired(True)]
            assert [job.id for job in await everything(store)] == [jobs[0].id, jobs[2].id]
            assert [row.name for row in await store.schedules(limit=9)] == ["a", "c"]

    async def test_firings_of_one_call_read_the_revisions_of_those_before_them(self) -> None:
        async with self.opened() as store:
            firings = [
                Firing(schedule=a_schedule("a")),
                Firing(schedule=a_schedule("b"), reads=(("a", 0),)),
                Firing(schedule=a_schedule("c"), reads=(("a", 1),)),
                Firing(schedule=bumped(a_schedule("a"))),
                Firing(schedule=a_schedule("d"), reads=(("a", 1),)),
            ]
            assert [one.stands for one in await store.fire(firings, now=NOW)] == [True, False, True, True, False]
            assert [row.name for row in await store.schedules(limit=9)] == ["a", "c"]

    async def test_what_a_firing_cancels_is_cancelled_for_those_after_it(self) -> None:
        async with self.opened() as store:
            old, (waiting,) = await launch(store)
            key = tick_key("hourly", later(0))
            other = a_schedule("other")
            # The cancel ends a run of the schedule, which is a revision of its own.
            early, late = bumped(bumped(old), note="early"), bumped(bumped(bumped(old)), note="late", active=())
            firings = [
                Firing(schedule=bumped(old), cancel=(waiting,)),
                Firing(schedule=other, jobs=(again := tick_job(other, idempotency_key=key),)),
                Firing(schedule=early),
                Firing(schedule=late),
            ]
            assert [one.stands for one in await store.fire(firings, now=NOW)] == [True, True, False, True]
            assert (await see(store, waiting)).state is State.CANCELLED
            assert (await see(store, again.id)).state is State.PENDING
            assert ((await row(store)).note, (await row(store)).active) == ("late", ())

    async def test_a_firing_makes_all_its_jobs(self) -> None:
        async with self.opened() as store:
            jobs = tuple(tick_job(NEW, later(n)) for n in range(100))
            await fire(store, NEW, jobs=jobs, ticks=tuple(a_tick(n) for n in range(1, 101)))
            assert [job.id for job in await everything(store)] == [job.id for job in jobs]
            assert len(await store.ticks("hourly", limit=999)) == 100

    # what it has read

    @pytest.mark.parametrize("reads", [(("a", 2),), (("b", 0),), (("a", 2), ("b", 0))], ids=str)
    async def test_a_firing_stands_while_what_it_read_is_as_it_was(self, reads: Any) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule("a"))
            await fire(store, bumped(a_schedule("a")))
            assert (await fire(store, NEW, reads=reads)).stands

    @pytest.mark.parametrize(
        "reads", [(("a", 1),), (("a", 3),), (("a", 0),), (("b", 1),), (("a", 2), ("b", 1))], ids=str
    )
    async def test_a_firing_writes_nothing_if_one_that_it_read_is_another(self, reads: Any) -> None:
        async with self.opened() as store:
            await fire(store, a_schedule("a"))
            await fire(store, bumped(a_schedule("a")))
            before = await all_of(store)
            assert await fire(store, NEW, reads=reads, jobs=(tick_job(NEW),), ticks=(a_tick(1),)) == Fired(False)
            assert await all_of(store) == before

    async def test_a_run_that_ends_is_a_change_of_the_schedule_that_was_read(self) -> None:
        async with self.opened() as store:
            first, (job_id,) = await launch(store, "a")
            await act(store, Action.CANCEL, job_id)
            assert not (await fire(store, NEW, reads=(("a", first.revision),))).stands
            assert not (await fire(store, bumped(first))).stands

    # keys

    async def test_a_key_that_is_held_refuses_all_of_it_and_is_named(self) -> None:
        async with self.opened() as store:
            held, free = tick_job(NEW, later(1)), tick_job(NEW, later(2))
            await put(store, held)
            before = await all_of(store)
            again = tick_job(NEW, later(1))
            done = await fire(store, NEW, jobs=(free, again), ticks=(a_tick(1), a_tick(2)))
            assert done == Fired(False, (tick_key("hourly", later(1)),))
            assert await all_of(store) == before

    async def test_every_key_that_is_held_is_named(self) -> None:
        async with self.opened() as store:
            await put(store, *(tick_job(NEW, later(n)) for n in (1, 3)), new_job(unique_key="u"))
            jobs = (*(tick_job(NEW, later(n)) for n in (1, 2, 3)), new_job(unique_key="u"))
            done = await fire(store, NEW, jobs=jobs)
            assert done == Fired(False, (tick_key("hourly", later(1)), tick_key("hourly", later(3)), "u"))

    async def test_two_jobs_of_a_firing_cannot_share_a_key(self) -> None:
        async with self.opened() as store:
            assert await fire(store, NEW, jobs=(tick_job(NEW), tick_job(NEW))) == Fired(
                False, (tick_key("hourly", NOW),)
            )
            assert await all_of(store) == NOTHING

    async def test_a_revision_that_is_not_the_next_is_told_before_its_keys(self) -> None:
        async with self.opened() as store:
            await fire(store, NEW, jobs=(tick_job(NEW),))
            assert await fire(store, NEW, jobs=(tick_job(NEW),)) == Fired(False)

    @pytest.mark.parametrize("state", [State.COMPLETED, State.RUNNING, State.PAUSED])
    async def test_a_tick_that_has_its_job_gets_no_second_one(self, state: State) -> None:
        async with self.opened() as store:
            await bring(store, state, idempotency_key=tick_key("hourly", NOW))
            assert (await fire(store, NEW, jobs=(tick_job(NEW),))).held == (tick_key("hourly", NOW),)
            assert await store.schedules(limit=9) == []

    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_tick_whose_job_came_to_nothing_may_get_another(self, state: State) -> None:
        async with self.opened() as store:
            await bring(store, state, idempotency_key=tick_key("hourly", NOW))
            assert (await fire(store, NEW, jobs=(tick_job(NEW),))).stands
            assert len(await everything(store)) == 2

    async def test_a_holder_past_its_expires_at_ends_as_expired(self) -> None:
        async with self.opened() as store:
            (old,) = await put(store, tick_job(NEW, expires_at=later(5)))
            assert (await fire(store, NEW, jobs=(tick_job(NEW),), now=later(4.999999))).stands is False
            assert (await fire(store, NEW, jobs=(tick_job(NEW),), now=later(5))).stands
            gone = await see(store, old)
            assert (gone.state, gone.finished_at) == (State.EXPIRED, later(5))

    # cancels

    async def test_it_cancels_what_waits_and_asks_what_runs_to_stop(self) -> None:
        async with self.opened() as store:
            old, (running, waiting) = await launch(store, jobs=2)
            assert await claimed(store, limit=1) == [running]
            assert (await fire(store, bumped(old), cancel=(running, waiting), now=later(3))).stands
            gone = await see(store, waiting)
            assert (gone.state, gone.finished_at) == (State.CANCELLED, later(3))
            reason = gone.cancel_reason or ""
            assert "hourly" in reason
            assert (await see(store, running)).state is State.RUNNING
            assert (await beat(store)).cancels == {running: reason}

    async def test_it_cancels_no_other_jobs_and_ended_ones_are_no_trouble(self) -> None:
        async with self.opened() as store:
            done = await bring(store, State.COMPLETED)
            old, (mine, other) = await launch(store, jobs=2)
            assert (await fire(store, bumped(old), cancel=(mine, done.id, "unknown"))).stands
            assert (await see(store, other)).state is State.PENDING
            assert await see(store, done.id) == done

    async def test_what_a_firing_cancels_has_ended_for_the_schedule_it_writes(self) -> None:
        async with self.opened() as store:
            old, (first, second) = await launch(store, said={"overlap": "cancel"}, jobs=2)
            await fire(store, bumped(old, held_at=NOW, note="mine"), cancel=(first,), now=later(3))
            found = await row(store)
            assert (found.active, found.revision, found.note) == ((second,), old.revision + 2, "mine")
            await fire(store, bumped(found), cancel=(second,), now=later(4))
            assert (await row(store)).due_at == later(4)

    async def test_a_job_may_be_made_and_cancelled_in_one_step(self) -> None:
        async with self.opened() as store:
            job = tick_job(NEW)
            await fire(store, a_schedule(active=(job.id,)), jobs=(job,), cancel=(job.id,))
            assert (await see(store, job.id)).state is State.CANCELLED
            assert (await row(store)).active == ()
