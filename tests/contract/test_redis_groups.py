"""Claims from many queues and tasks in Redis: the index of groups by their first ready job."""

import random
from collections.abc import Iterator
from typing import cast

import pytest

from books import audit
from clusters import RedisCluster
from mainspring.clock import micros
from mainspring.records.job import Action, Job, NewJob
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.records import claim_key, packed
from mainspring.stores.redis.server import SCRIPTS
from mainspring.stores.redis.shard import Shards
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import NOW, Contract, act, beat, claim, later, new_job, put
from servers import Redis

# More than claims read without the index (MANY_GROUPS in claim.lua), also in each shard of a cluster.
QUEUES, QUEUES_OF_CLUSTER = 60, 2_000


class Groups(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url, self.queues = redis, redis.fresh(), QUEUES

    def make_store(self) -> Store:
        return open_store(self.url)

    async def drained(self, store: Store, limit: int) -> list[Job]:
        """All due jobs, in the order in which claims return them."""
        taken: list[Job] = []
        while some := (await claim(store, limit=limit)).jobs:
            taken += some
        return taken


def in_order(jobs: list[NewJob]) -> list[str]:
    """The ids in the order of claims."""
    return [job.id for job in sorted(jobs, key=lambda job: (-job.priority, job.run_at or NOW, job.id))]


def shards_of(store: Store) -> Shards:
    shards = cast(RedisStore, store)._shards
    assert shards is not None
    return shards


async def indexed(store: Store) -> int:
    """The number of groups in the index of the first shard."""
    shard = shards_of(store).first
    return int(await shard.call("ZCARD", f"{shard.base}:heads"))


def some_jobs(seed: int, queues: int, jobs: int) -> list[NewJob]:
    """Jobs with few priorities and instants, so that many are equal in one or both."""
    random_of = random.Random(seed)
    return [
        new_job(
            queue=f"queue-{random_of.randrange(queues):04}",
            priority=random_of.choice([0, 0, 0, 5]),
            run_at=random_of.choice([None, None, later(-5), later(-9)]),
        )
        for _ in range(jobs)
    ]


class TestOrder(Groups):
    @pytest.fixture(autouse=True, params=["server", "cluster"])
    def _server(self, request: pytest.FixtureRequest) -> None:
        alone = request.param == "server"
        server: Redis | RedisCluster = request.getfixturevalue("redis" if alone else "redis_cluster")
        self.url, self.queues = server.fresh(), QUEUES if alone else QUEUES_OF_CLUSTER

    @pytest.mark.parametrize("limit", [1, 7, 100])
    async def test_jobs_of_many_queues_are_claimed_in_order(self, limit: int) -> None:
        async with self.opened() as store:
            jobs = some_jobs(limit, self.queues, max(1_000, self.queues) if limit > 1 else 150)
            await put(store, *jobs[::2])
            await beat(store)
            expected = in_order(jobs[::2])
            first = (await claim(store, limit=limit)).jobs
            assert [job.id for job in first] == expected[:limit]
            await put(store, *jobs[1::2])
            left = in_order([job for job in jobs if job.id not in expected[:limit]])
            assert [job.id for job in await self.drained(store, limit)] == left
            await audit(shards_of(store))

    async def test_jobs_of_groups_with_more_than_their_share_are_claimed_in_order(self) -> None:
        """The first jobs of all are in few of the queues."""
        async with self.opened() as store:
            few = [new_job(queue=f"queue-{n % 3:04}", run_at=later(-9)) for n in range(400)]
            jobs = [*few, *some_jobs(1, self.queues, max(500, self.queues))]
            await put(store, *jobs)
            await beat(store)
            assert [job.id for job in await self.drained(store, 150)] == in_order(jobs)
            await audit(shards_of(store))


class TestIndex(Groups):
    @pytest.fixture
    def jobs(self) -> list[NewJob]:
        """Two jobs in each queue."""
        return [new_job(queue=f"queue-{n:04}") for _ in range(2) for n in range(QUEUES)]

    async def test_index_exists_only_while_many_groups_have_jobs(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            assert not await indexed(store)
            assert len((await claim(store, limit=10)).jobs) == 10
            assert await indexed(store) == QUEUES
            assert [job.id for job in await self.drained(store, 10)] == [job.id for job in jobs[10:]]
            assert not await indexed(store)

    async def test_a_new_first_job_of_a_group_is_claimed_first(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            await claim(store, limit=1)
            alone = [await put(store, new_job(queue=name, priority=1)) for name in ("queue-0050", "new")]
            batch = await put(store, *(new_job(queue=name, priority=1) for name in ("queue-0040", "newer")))
            (ahead,) = await put(store, new_job(queue="queue-0030", priority=9, run_at=later(1)))
            await beat(store)
            found = await claim(store, limit=5, now=later(1))
            assert [job.id for job in found.jobs] == [ahead, *alone[0], *alone[1], *batch]

    async def test_a_changed_job_is_claimed_in_its_new_order(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            (first,) = (await claim(store, limit=1)).jobs
            assert first.id == jobs[0].id
            for job in jobs[1:4]:
                await act(store, Action.CANCEL, job.id)
            await audit(shards_of(store))
            assert [job.id for job in (await claim(store, limit=2)).jobs] == [job.id for job in jobs[4:6]]

    async def test_a_worker_of_one_queue_skips_the_others(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            await claim(store, limit=1)
            found = await claim(store, queues=["queue-0050", "queue-0058"], limit=9)
            assert [job.id for job in found.jobs] == [jobs[n].id for n in (50, 58, 110, 118)]
            assert found.next_at is None

    async def test_a_malformed_entry_is_moved_away(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            await claim(store, limit=1)
            self.server.run("ZADD", "{fresh}:ready:queue-0001\0task", 0, b"short")
            self.server.run("ZADD", "{fresh}:ready:queue-0002\0task", 0, b"")
            assert [job.id for job in (await claim(store, limit=4)).jobs] == [job.id for job in jobs[1:5]]
            assert len(await self.drained(store, 100)) == len(jobs) - 5
            assert self.server.run("HLEN", "{fresh}:malformed") == 2

    async def test_ids_that_begin_alike_are_claimed_in_order(self) -> None:
        jobs = [new_job(id=f"the-same-first-bytes-{n:04}", queue=f"queue-{n % QUEUES:04}") for n in range(200)]
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            assert [job.id for job in await self.drained(store, 7)] == [job.id for job in jobs]

    async def test_a_full_server_lets_jobs_be_claimed(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            self.server.run("CONFIG", "SET", "maxmemory", "10kb")
            try:
                assert [job.id for job in await self.drained(store, 10)] == [job.id for job in jobs]
            finally:
                self.server.run("CONFIG", "SET", "maxmemory", "0")


class TestOlderRelease(Groups):
    """A release that does not know the index works on the same store."""

    @pytest.fixture
    def jobs(self) -> list[NewJob]:
        return [new_job(queue=f"queue-{n % QUEUES:04}") for n in range(4 * QUEUES)]

    @pytest.fixture
    def older(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
        """Scripts without the index while the patch lasts."""
        with monkeypatch.context() as patch:
            for name, text in SCRIPTS.items():
                if "has_heads()" in text:
                    without = text.replace("= 32, 16, 16, 32", "= 1e9, 16, 16, 32")
                    patch.setitem(SCRIPTS, name, without.replace("== 1\nend\n\n-- Makes the index", "== 2\nend\n\n-- "))
            assert "== 2" in SCRIPTS["claim"]
            assert "== 2" in SCRIPTS["enqueue_one"]
            yield patch

    async def test_jobs_of_both_releases_are_claimed_by_both(
        self, jobs: list[NewJob], older: pytest.MonkeyPatch
    ) -> None:
        async with self.opened() as old:
            # A connection loads each script once: this one continues to use those without the index.
            await put(old, *jobs[:100])
            await put(old, jobs[100])
            await beat(old)
            taken = [job.id for job in (await claim(old, limit=1)).jobs]
            assert not await indexed(old)
            older.undo()
            new = self.make_store()
            await new.open()
            taken += [job.id for job in (await claim(new, limit=20)).jobs]
            assert taken == [job.id for job in jobs[:21]]
            assert await indexed(new) == QUEUES
            await put(old, *jobs[101:])
            (unknown,) = await put(old, new_job(queue="unknown"))
            taken += [job.id for job in (await claim(old, limit=20)).jobs]
            taken += [job.id for job in await self.drained(new, 20)]
            assert sorted(taken) == sorted([*(job.id for job in jobs), unknown])
            await new.close()

    async def test_a_claim_with_room_for_all_jobs_finds_groups_that_the_index_lacks(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            await claim(store, limit=1)
            for name, head in self.server.run("HGETALL", "{fresh}:head").items():
                if not name.startswith(b"queue-0000"):
                    self.server.run("HDEL", "{fresh}:head", name)
                    self.server.run("ZREM", "{fresh}:heads", head + name)
            found = await claim(store, limit=1_000)
            assert [job.id for job in found.jobs] == [job.id for job in jobs[1:]]

    async def test_an_urgent_job_of_the_older_release_is_claimed_soon(self, jobs: list[NewJob]) -> None:
        async with self.opened() as store:
            await put(store, *jobs)
            await beat(store)
            await claim(store, limit=1)
            name, (urgent,) = "queue-0055\0task", await put(store, new_job(queue="queue-0055", priority=9))
            first = claim_key(9, micros(NOW), packed(urgent))
            second = claim_key(0, micros(NOW), packed(jobs[55].id))
            assert self.server.run("HGET", "{fresh}:head", name) == first
            self.server.run("ZREM", "{fresh}:heads", first + name.encode())
            self.server.run("ZADD", "{fresh}:heads", 0, second + name.encode())
            self.server.run("HSET", "{fresh}:head", name, second)
            # Each claim compares about 32 of the 60 groups, one after the other.
            taken = [job.id for _ in range(4) for job in (await claim(store, limit=1)).jobs]
            assert urgent in taken
