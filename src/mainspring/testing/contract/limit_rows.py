"""Stored limits: set, changed and removed while jobs wait, listed, recounted; and jobs that change their group."""

from __future__ import annotations

from ...ids import JobId
from ...records.job import Action
from ...records.limit import AT_ONCE, StoredLimit, limit_key_of
from ...records.outcome import Done, Retry
from ...records.query import Update
from .build import (
    NOW,
    Contract,
    act,
    beat,
    claim,
    claim_ids,
    claim_job,
    fail,
    finish_run,
    later,
    new_job,
    put,
    read_job,
)
from .limit import A_MICROSECOND, NAME, claim_of, groups, limits_of, put_limited, remembered, set_limit
from .sentences import proves


class LimitRowsContract(Contract):
    # limits

    @proves("LM8")
    async def test_a_limit_may_have_its_number_in_its_name(self) -> None:
        async with self.opened() as store:
            ids = await put_limited(store, "x", "x", "x", "y", name=f"{AT_ONCE}2")
            assert await claim_ids(store) == [ids[0], ids[1], ids[3]]

    @proves("LM13")
    async def test_waiting_jobs_follow_a_limit_that_is_changed_or_removed(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            ids = await put_limited(store, *"aaaaaa")
            taken = await claim_ids(store)
            await set_limit(store, running=3)
            taken += await claim_ids(store)
            assert taken == ids[:3]
            await set_limit(store, running=0)
            await finish_run(store, await claim_of(store, ids[0]), Done())
            assert await claim_ids(store) == []
            await limits_of(store).set_limits([], removed=[NAME, "task:unknown"], now=NOW)
            assert await claim_ids(store) == ids[3:]
            assert await limits_of(store).limits() == []

    @proves("LM13")
    async def test_jobs_above_a_lowered_limit_go_on_and_no_other_starts(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=3)
            ids = await put_limited(store, *"aaaa")
            await claim_ids(store)
            await set_limit(store, running=2)
            for id in ids[:2]:
                assert await claim_ids(store) == []
                await finish_run(store, await claim_of(store, id), Done())
            assert await claim_ids(store) == [ids[3]]

    @proves("LM13", "LM14")
    async def test_limits_are_listed_by_name_as_they_were_set(self) -> None:
        async with self.opened() as store:
            whole = StoredLimit(
                name="task:b", running=1, rate=9, per=0.5, burst=3, total=7, by=("user", "ü"), declared="x"
            )
            few = StoredLimit(name="queue:a")
            await limits_of(store).set_limits([whole, few], now=NOW)
            await put_limited(store, "k", name="task:b")
            await claim_ids(store)
            found = await limits_of(store).limits()
            assert [(use.limit, use.running, use.groups) for use in found] == [(few, 0, 0), (whole, 1, 1)]

    @proves("LM15")
    async def test_groups_are_listed_by_what_they_hold(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            ids = await put_limited(store, "a", "b", "b", "c")
            await put_limited(store, "a", name="task:other")
            await act(store, Action.DELETE, ids[0])
            await claim_job(store, ids[1])
            b, c = await groups(store)
            assert (b.limit_key, b.running, b.waiting, b.holders) == (limit_key_of(NAME, "b"), 1, 1, (ids[1],))
            assert (b.next_at, c.next_at) == (None, None)
            assert (c.limit_key, c.running, c.waiting, c.holders) == (limit_key_of(NAME, "c"), 1, 0, (ids[3],))
            await finish_run(store, await claim_of(store, ids[1]), Done())
            assert [group.next_at for group in await groups(store, key="b")] == [NOW]
            assert await groups(store, key="a") == []
            assert len(await groups(store, limit=1)) == 1

    @proves("LM9")
    async def test_a_group_that_is_idle_is_forgotten(self) -> None:
        async with self.opened() as store:
            await set_limit(store, rate=1, per=30.0)
            for id in await put_limited(store, *"abc"):
                await finish_run(store, await claim_of(store, id), Done(), now=later(1))
            await claim_ids(store, now=later(30) - A_MICROSECOND)
            assert await remembered(store) == 3
            await claim_ids(store, now=later(30))
            assert await remembered(store) == 0

    @proves("LM16")
    async def test_a_recount_of_a_right_store_changes_nothing(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            ids = await put_limited(store, "a", "a", "b", "c")
            await claim_job(store, ids[0])
            before, after, wrong = await groups(store), None, list[str]()
            for _ in range(5):
                counted = await limits_of(store).recount_limits(after=after, limit=2, now=NOW)
                after, wrong = counted.after, [*wrong, *counted.wrong]
                if after is None:
                    break
            assert (wrong, after) == ([], None)
            assert await groups(store) == before
            assert await claim_ids(store) == []

    # changes of jobs

    @proves("LM10")
    async def test_a_replaced_job_gets_the_limit_key_of_the_new_request(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            (holder,) = await put_limited(store, "a")
            await claim_job(store, holder)
            (waiting,) = await put_limited(store, "a", unique_key="k")
            await put_limited(store, "b", unique_key="k", on_conflict="replace")
            assert (await read_job(store, waiting)).limit_key == limit_key_of(NAME, "b")
            assert await claim_ids(store) == [waiting]

    @proves("LM10")
    async def test_a_replaced_job_may_have_no_limit_any_longer(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=0)
            (waiting,) = await put_limited(store, "a", unique_key="k")
            await put(store, new_job(unique_key="k", on_conflict="debounce", run_at=NOW))
            assert (await read_job(store, waiting)).limit_key is None
            assert await claim_ids(store) == [waiting]
            await finish_run(store, await claim_of(store, waiting), Retry(after=0), now=NOW)
            await put_limited(store, "a", unique_key="k", on_conflict="replace")
            assert await claim_ids(store) == []

    @proves("LM10")
    async def test_a_job_keeps_its_limit_key_in_every_other_change(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            first, second = await put_limited(store, "a", "a")
            update = Update(priority=9, queue="other", run_at=later(-9))
            await act(store, Action.UPDATE, second, update=update)
            run = await claim_job(store, second)
            assert run.limit_key == limit_key_of(NAME, "a")
            assert await claim_ids(store) == []
            await fail(store, run)
            await act(store, Action.RETRY, second)
            assert await claim_ids(store) == [second]
            assert (await read_job(store, second)).limit_key == limit_key_of(NAME, "a")
            assert (await read_job(store, first)).runs == 0

    @proves("LM1", "LM3")
    async def test_a_thousand_jobs_of_a_hundred_groups_pass_through_every_verb(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=3)
            ids = await put_limited(store, *(f"key {n % 100}" for n in range(1000)))
            await beat(store)
            done: list[JobId] = []
            while jobs := (await claim(store, limit=400)).jobs:
                held = [job.limit_key for job in jobs]
                assert len(jobs) in (100, 300)
                assert max(map(held.count, set(held))) <= 3
                done += [job.id for job in jobs]
                for job in jobs:
                    await finish_run(store, job, Done(), now=NOW)
            assert sorted(done) == sorted(ids)
            assert await groups(store) == []
