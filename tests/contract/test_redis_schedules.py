"""Schedules in Redis: pages by name, due schedules, and races with other writers."""

from datetime import datetime
from typing import Any, cast

import pytest
from msgspec.structs import replace
from test_redis_batches import Counter, OnServers, Rival, named, outcomes_of

from books import audit
from mainspring.clock import EPOCH
from mainspring.records.outcome import Outcome
from mainspring.schedule.record import Firing
from mainspring.stores import open_store
from mainspring.stores.redis import finish, plain, schedules
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import (
    NOW,
    a_schedule,
    a_tick,
    all_jobs,
    beat,
    claim,
    fire,
    later,
    launch,
    new_job,
    next_revision,
    put,
    read_schedule,
    tick_job,
)
from servers import Redis


async def names(store: RedisStore, page: int) -> list[str]:
    """Of all schedules, in pages."""
    found: list[str] = []
    while rows := await store.schedules(limit=page, after=found[-1] if found else None):
        found += [row.name for row in rows]
    return found


class TestPages(OnServers):
    async def test_a_page_of_schedules_is_one_round_trip_however_many_there_are(self) -> None:
        async with self.opened() as store:
            counter, trips = Counter(store), list[int]()
            for count in (10, 2_000):
                await store.fire([Firing(schedule=a_schedule(f"{count} {n}")) for n in range(count)], now=NOW)
                before = counter.trips
                assert len(await store.schedules(limit=5, after=f"{count} 3")) == 5
                trips.append(counter.trips - before)
            assert trips == [1, 1]

    async def test_schedules_of_a_release_without_the_index_are_in_the_pages(self) -> None:
        """That release writes and drops schedules meanwhile, without the index."""
        async with self.opened() as store:
            await store.fire([Firing(schedule=a_schedule(named(n))) for n in range(20)], now=NOW)
            shard = store._open().first
            text = await shard.call("HGET", f"{shard.base}:schedule", named(0))
            await shard.call("HSET", f"{shard.base}:schedule", "older", text.replace(named(0).encode(), b"older"))
            assert await names(store, 7) == [*map(named, range(20)), "older"]
            await audit(store._open())
            await shard.call("DEL", f"{shard.base}:schedules")
            assert await names(store, 7) == [*map(named, range(20)), "older"]
            await audit(store._open())

    async def test_equal_numbers_of_drops_and_creations_without_the_index_are_noticed(self) -> None:
        async with self.opened() as store:
            await store.fire([Firing(schedule=a_schedule(named(n))) for n in range(20)], now=NOW)
            shard = store._open().first
            text = await shard.call("HGET", f"{shard.base}:schedule", named(0))
            await shard.multi([
                ("HDEL", f"{shard.base}:schedule", named(3)),
                ("ZREM", f"{shard.base}:due", named(3)),
                ("HSET", f"{shard.base}:schedule", "older", text.replace(named(0).encode(), b"older")),
            ])  # fmt: skip
            await store.prune({}, audited_since=EPOCH, now=NOW)  # as every worker does now and then
            assert await names(store, 50) == [*(named(n) for n in range(20) if n != 3), "older"]
            await audit(store._open())

    async def test_a_dropped_schedule_is_in_no_page(self) -> None:
        async with self.opened() as store:
            await store.fire([Firing(schedule=a_schedule(named(n))) for n in range(2_500)], now=NOW)
            gone = [named(n) for n in range(0, 2_500, 2)]
            assert await store.drop_schedules([*gone, "none"]) == gone
            assert await names(store, 1_200) == [named(n) for n in range(1, 2_500, 2)]
            await audit(store._open())


class TestDue(OnServers):
    async def test_due_reads_a_few_rows_of_many_schedules(self) -> None:
        async with self.opened() as store:
            ahead = {"next_run_at": later(60), "due_at": later(60)}
            await store.fire([Firing(schedule=a_schedule(named(n), **ahead)) for n in range(2_000)], now=NOW)
            shard = store._open().first
            due, rows = await shard.script("due", [0, 0, 500, 0, schedules.AHEAD_ROWS])
            assert (due, len(rows)) == ([], 3 * schedules.AHEAD_ROWS)
            counter = Counter(store)
            assert (await store.due(now=NOW, limit=500)).next_at == later(60)
            assert counter.trips == 1

    @pytest.mark.parametrize("elsewhere", [0, 3, 50])
    async def test_due_skips_schedules_computed_elsewhere(self, elsewhere: int) -> None:
        async with self.opened() as store:
            for at in (0, 60):
                there = {"spec": {"computed": True}, "due_at": later(at)}
                made = [a_schedule(f"{at} {n:03}", **there) for n in range(elsewhere)]
                made += [a_schedule(f"{at} mine {n}", due_at=later(at + 1)) for n in range(3)]
                await store.fire([Firing(schedule=one) for one in made], now=NOW)
            found = await store.due(now=later(1), limit=10)
            assert [one.name for one in found.schedules] == [f"0 mine {n}" for n in range(3)]
            assert found.next_at == later(61)
            assert len((await store.due(now=later(1), limit=2)).schedules) == 2


class TestInBetween(OnServers):
    """Another writer comes between what a verb has read and what it writes."""

    async def test_a_claim_takes_nothing_from_a_queue_that_was_paused_meanwhile(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await beat(store)
            await put(store, new_job(), new_job(queue="another"))
            (late,) = await put(store, new_job(expires_at=NOW), now=later(-10))  # so that the claim also expires a job
            Rival(store, lambda: other.pause_queue("default", True))
            found = await claim(store)
            assert found.expired == [late]
            assert [job.queue for job in found.jobs] == ["another"]
            await audit(store._open())

    async def test_a_schedule_that_starts_to_wait_during_a_finish_is_released(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await launch(store, "first")
            waiter = a_schedule("second", held_at=NOW, due_at=None, next_run_at=later(3600))
            await fire(store, waiter)
            await beat(store)
            (job,) = (await claim(store)).jobs
            waited = list[bool]()

            async def wait() -> None:
                if not waited:
                    waited.append((await fire(other, next_revision(waiter, waits_on="first"))).stands)

            Rival(store, wait)
            assert await store.finish(outcomes_of([job])) == {job.id}
            assert waited == [True]
            found = await read_schedule(store, "second")
            assert found.waits_on is None
            assert found.due_at is not None

    async def test_a_firing_names_a_key_that_was_taken_meanwhile(self) -> None:
        async with self.opened() as store, self.opened() as other:
            new = a_schedule()
            job = tick_job(new)
            Rival(store, lambda: put(other, new_job(idempotency_key=job.idempotency_key)))
            fired = await fire(store, replace(new, active=(job.id,)), jobs=(job,))
            assert (fired.stands, fired.held) == (False, (job.idempotency_key,))
            assert await store.schedules(limit=9) == []


class TestAlike:
    """The fast paths write what the shared rules write."""

    async def tour(self, store: RedisStore, firings: list[list[Firing]]) -> list[Any]:
        await store.open()
        seen: list[Any] = [await store.fire(some, now=NOW) for some in firings]
        await beat(store)
        taken = await claim(store, limit=50)
        outcomes = [
            replace(one, lease=job.lease or "") for job, one in zip(taken.jobs, self.ends(taken.jobs), strict=True)
        ]
        seen.append(await store.finish(outcomes))
        await audit(store._open())
        jobs = await all_jobs(store)
        seen += [replace(job, lease=None) for job in jobs]
        for job in jobs:
            seen.append([replace(run, lease="") for run in await store.executions(job.id)])
        for found in await store.schedules(limit=99):
            seen += [found, await store.ticks(found.name, limit=99)]
        seen += [await store.tallies("minute", since=EPOCH), await store.due(now=later(9_999), limit=99)]
        await store.close()
        return seen

    def ends(self, jobs: list[Any]) -> list[Outcome]:
        """Outcomes of the jobs; every second one has a result."""
        ends = outcomes_of(jobs)
        return [replace(one, result='"x"' if n % 2 else None) for n, one in enumerate(ends)]

    async def test_the_fast_path_of_fire_and_finish_writes_what_the_shared_rules_write(
        self, redis: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        firings: list[list[Firing]] = [[], []]
        for n in range(12):
            spec = {"overlap": "allow" if n % 3 else "skip", "after": "finish" if n == 5 else "start"}
            spec |= {"tags": ("a", "b"), "queue": f"q{n % 2}"} if n % 2 else {}
            new = a_schedule(named(n), spec=spec)
            spec = {"tags": ("a", "b") if n % 2 else (), "queue": f"q{n % 2}", "priority": n % 4}
            spec |= {"expires_at": later(500)} if n % 5 == 0 else {}
            spec |= {"unique_key": "unique"} if n == 8 else {}
            jobs = tuple(tick_job(new, later(-k), **spec) for k in range(1 + n % 2))
            ticks = tuple(a_tick(k + 1, job_id=job.id) for k, job in enumerate(jobs))
            active = tuple(job.id for job in jobs)
            due: datetime | None = None if n == 5 else later(3600)
            fired = next_revision(new, active=active, fired=len(jobs), due_at=due, next_run_at=due)
            firings[0].append(Firing(schedule=new))
            firings[1].append(Firing(schedule=fired, jobs=jobs, ticks=ticks))
        by_hand = await self.tour(cast(RedisStore, open_store(redis.fresh("hand"))), firings)
        written = self.watched(monkeypatch)
        await self.tour(cast(RedisStore, open_store(redis.fresh("watched"))), firings)
        assert len(written) >= 2
        monkeypatch.setattr(plain, "all_plain", lambda firings: False)

        async def none(*args: object) -> set[str]:
            return set()

        monkeypatch.setattr(finish, "_finish_scheduled", none)
        assert await self.tour(cast(RedisStore, open_store(redis.fresh("rules"))), firings) == by_hand

    def watched(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Records how many firings each call of the fast path has written."""
        written, write = list[int](), plain.write_planned

        async def noted(*args: Any) -> set[int]:
            written.append(len(done := await write(*args)))
            return done

        monkeypatch.setattr(plain, "write_planned", noted)
        return written
