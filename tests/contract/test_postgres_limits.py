"""Limits on PostgreSQL: the contract, claims side by side, releases beside each other, what a recount finds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from further import MILD, REAL, Placed, after
from msgspec.structs import replace
from test_postgres_schedules import statements

from mainspring.errors import SchemaMismatch, StoreUnavailable
from mainspring.ids import JobId
from mainspring.records.job import Action, Job
from mainspring.records.limit import StoredLimit, limit_key_of
from mainspring.records.outcome import Done, Retry, decide
from mainspring.records.query import Filter
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres.script import LIMITS_VERSION
from mainspring.testing.contract.build import (
    NOW,
    a_worker,
    act,
    beat,
    claim,
    claim_ids,
    claim_job,
    finish_run,
    later,
    make_suspect,
    new_job,
    put,
)
from mainspring.testing.contract.limit import NAME, LimitContract, groups, limits_of, put_limited, set_limit
from mainspring.testing.contract.limit_rows import LimitRowsContract
from servers import Postgres

# The release before limits.
BEFORE = Migrations(REAL.text.partition(f"-- up {LIMITS_VERSION}")[0])
FOR_ALL = after(REAL, MILD.replace("for {newest}", "for 1"))
OLDER = "workers of an older release are alive, which do not know limits: old"


class TestLimits(LimitContract, LimitRowsContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestClaims(Placed):
    @asynccontextmanager
    async def holding(self, sql: str) -> AsyncIterator[None]:
        """Another transaction holds the locks of this statement."""
        async with self.connected() as connection, connection.transaction():
            await connection.execute(sql)
            yield

    async def test_claims_side_by_side_never_pass_a_limit(self) -> None:
        """Four workers, random batches, ends, retries and cancels; after each step the counts are those of the jobs."""
        async with self.opened() as store:
            await limits_of(store).set_limits([StoredLimit(name=NAME, running=2, total=7)], now=NOW)
            keys = [f"{n}" for n in range(8)]
            ids = await put_limited(store, *(keys[n % 8] for n in range(240)))
            names = dict(zip(ids, (keys[n % 8] for n in range(240)), strict=True))
            running: dict[JobId, Job] = {}
            most = 0

            async def work(worker: str, seed: int) -> None:
                nonlocal most
                rng, idle = random.Random(seed), 0
                await beat(store, worker, until=later(600))
                while idle < 20:
                    jobs = (await claim(store, worker, limit=rng.randint(1, 6))).jobs
                    running.update({job.id: job for job in jobs})
                    held = [names[id] for id in running]
                    assert all(held.count(key) <= 2 for key in set(held))
                    most = max(most, len(held))
                    idle = 0 if jobs else idle + 1
                    await asyncio.sleep(0)
                    for job in jobs:
                        end = Retry(after=0) if rng.random() < 0.1 and job.attempt < 3 else Done()
                        # Before the store knows: then another claim may already have its place.
                        del running[job.id]
                        await finish_run(store, job, end, now=NOW)

            async with asyncio.timeout(60):
                await asyncio.gather(*(work(f"w{n}", n) for n in range(4)))
            assert most <= 7
            assert (await store.overview(now=NOW)).states == {"completed": 240}
            assert await groups(store) == []
            assert (await limits_of(store).recount_limits(limit=100, now=later(5))).wrong == ()

    async def test_a_group_that_another_claim_has_locked_is_claimed_later(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=5)
            ids = await put_limited(store, "a", "a", "b")
            await beat(store)
            async with self.holding("SELECT FROM own.mainspring_limit_groups WHERE limit_key LIKE '%a' FOR UPDATE"):
                taken = await claim(store)
                assert [job.id for job in taken.jobs] == [ids[2]]
                assert taken.next_at == NOW
            assert await claim_ids(store) == ids[:2]

    async def test_a_job_that_another_transaction_has_locked_is_left(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=5)
            ids = await put_limited(store, "a", "a")
            await beat(store)
            async with self.holding(f"SELECT FROM own.mainspring_jobs WHERE id = '{ids[0]}' FOR UPDATE"):
                assert [job.id for job in (await claim(store)).jobs] == [ids[1]]
            assert [group.running for group in await groups(store)] == [1]
            assert await claim_ids(store) == [ids[0]]

    async def test_stale_rows_of_lines_do_not_change_the_order(self) -> None:
        async with self.opened() as store:
            first = await put_limited(store, *"abc", run_at=later(-9), priority=1)
            others = await put_limited(store, *"abcd")
            await act(store, Action.CANCEL, *first)
            assert [await claim_ids(store, limit=1) for _ in range(4)] == [[id] for id in others]

    async def test_an_outcome_need_not_name_the_limit_of_its_job(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            ids = await put_limited(store, "a", "a")
            (plain,) = await put(store, new_job())
            await beat(store)
            jobs = (await claim(store)).jobs
            outcomes = [replace(decide(job, Done(), now=NOW), limit_key=None) for job in jobs]
            assert await store.finish(outcomes) == {ids[0], plain}
            assert await claim_ids(store) == [ids[1]]

    async def test_a_suspect_keeps_what_is_remembered_of_its_group(self) -> None:
        async with self.opened() as store:
            key = limit_key_of(NAME, "a")
            suspect = await make_suspect(store, limit_key=key)
            await set_limit(store, running=0)
            for second in range(3):
                assert await claim_ids(store, now=later(second)) == []
            await set_limit(store, running=1)
            assert await claim_ids(store, now=later(4)) == [suspect]

    async def test_lists_and_counts_have_limited_jobs_beside_others(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            limited = await put_limited(store, "a", "a", tags=("red",))
            plain = await put(store, new_job(tags=("red",)))
            await claim_ids(store, limit=1)
            found = await store.jobs(Filter(tags=("red",)), now=NOW, limit=9)
            assert sorted(job.id for job in found) == sorted([*limited, *plain])
            assert len(await store.jobs(Filter(states=("pending",)), now=NOW, limit=9, sort="due")) == 2
            assert (await store.overview(now=NOW)).states == {"pending": 2, "running": 1}

    async def test_a_recount_corrects_what_differs_from_the_jobs(self) -> None:
        async with self.opened() as store:
            await set_limit(store, running=1)
            await put_limited(store, *"aabbcc")
            await claim_ids(store)
            self.server.run("UPDATE own.mainspring_limit_groups SET running = 7 WHERE limit_key LIKE '%a'")
            self.server.run("DELETE FROM own.mainspring_limit_lines WHERE limit_key LIKE '%b'")
            self.server.run("UPDATE own.mainspring_limit_lines SET turn = 9e15 WHERE limit_key LIKE '%c'")
            counted = await limits_of(store).recount_limits(limit=10, now=NOW)
            assert counted.wrong == tuple(limit_key_of(NAME, key) for key in "abc")
            assert counted.after is None
            assert (await limits_of(store).recount_limits(limit=10, now=NOW)).wrong == ()
            assert [group.running for group in await groups(store)] == [1, 1, 1]

    async def test_claims_and_ends_send_as_many_statements_whatever_the_number_of_groups(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.opened() as store:
            sent = []
            for size in (30, 300):
                await put_limited(store, *(f"{size} {n}" for n in range(size)))
                await beat(store)
                with statements(monkeypatch) as some:
                    jobs = (await claim(store, limit=2 * size)).jobs
                    await store.finish([decide(job, Done(), now=NOW) for job in jobs])
                assert len(jobs) == size
                sent.append(len(some))
            # The second claim also looks at the groups of the first one.
            assert max(sent) < 30


class TestRates(Placed):
    async def test_no_span_has_more_starts_than_the_rate_allows_whoever_claims(self) -> None:
        async with self.opened() as one, self.opened() as two, self.opened() as three:
            await set_limit(one, rate=200, burst=5)
            await put_limited(one, *["a"] * 300)
            started: list[float] = []
            for instant in range(50):
                now = later(instant / 50)
                for store in (one, two, three):
                    await beat(store, f"w{id(store)}", until=later(600))
                taken = await asyncio.gather(
                    *(claim(store, f"w{id(store)}", limit=50, now=now) for store in (one, two, three))
                )
                started += [instant / 50 for some in taken for _ in some.jobs]
            for first in range(len(started)):
                for last in range(first, len(started)):
                    assert last - first + 1 <= 5 + (started[last] - started[first]) * 200 + 1e-6
            assert len(started) >= 150


class TestReleases(Placed):
    """The release before limits, and this one, on the same tables."""

    async def test_both_releases_work_until_the_first_limited_job_is_stored(self) -> None:
        async with self.opened() as new:
            await set_limit(new, running=1)
            assert (await new.schema()).oldest == REAL.oldest(REAL.newest)
            older = a_worker("old", schema=BEFORE.newest)
            await new.beat(older, until=later(60), now=NOW)
            with pytest.raises(StoreUnavailable, match=OLDER):
                await put_limited(new, "a")
            await new.beat(older, until=NOW, now=NOW)
            await put_limited(new, "a")
            assert (await new.schema()).oldest == LIMITS_VERSION
            with pytest.raises(SchemaMismatch):
                await self.store(migrations=BEFORE).open()

    async def test_a_limited_job_that_another_one_makes_shuts_older_releases_out(self) -> None:
        async with self.opened() as store:
            job = await claim_job(store, *(await put(store, new_job())))
            then = (new_job(limit_key=limit_key_of(NAME, "a")),)
            await finish_run(store, job, Done(), now=NOW, then=then)
            assert (await store.schema()).oldest == LIMITS_VERSION

    async def test_migration_below_limits_is_refused_while_limited_jobs_are_unfinished(self) -> None:
        async with self.opened() as store:
            ids = await put_limited(store, "a", "b")
            with pytest.raises(StoreUnavailable, match="2 unfinished jobs have a limit"):
                await store.migrate(BEFORE.newest)
            async with self.opened(migrations=FOR_ALL) as new:
                assert (await new.schema()).oldest == LIMITS_VERSION
                await new.migrate(REAL.newest)
            await act(store, Action.CANCEL, *ids)
            assert await store.migrate(BEFORE.newest) == [BEFORE.newest]
            assert await store.migrate() == [REAL.newest]
