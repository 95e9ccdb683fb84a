"""A node of a cluster that comes back as an older copy has lost jobs: what others tell of them holds nobody up."""

from typing import Any, cast

import pytest

from books import audit
from clusters import RedisCluster
from mainspring.records.outcome import Done
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.records import packed
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    all_jobs,
    beat,
    claim_job,
    finish_run,
    later,
    launch,
    new_job,
    put,
    read_schedule,
)


class TestMend(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster: RedisCluster) -> None:
        self.url = redis_cluster.fresh()

    def make_store(self) -> RedisStore:
        return cast(RedisStore, open_store(self.url))

    async def lose(self, store: Any, queue: str) -> None:
        """All that the home of this queue has."""
        shard = store._open().of(queue)
        assert shard is not store._open().first
        await shard.call("UNLINK", *await shard.call("KEYS", f"{shard.base}*"))
        assert await all_jobs(store) == []

    async def notice(self, store: Store) -> None:
        """As every worker does."""
        await beat(store)
        await store.expired(now=NOW, limit=10)

    @pytest.mark.parametrize("said", [{"overlap": "skip"}, {"overlap": "queue"}, {"after": "finish"}], ids=str)
    async def test_a_schedule_is_not_held_up_by_a_job_that_is_gone(self, said: dict[str, Any]) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store, spec=said, job={"queue": "elsewhere"})
            await store.forget({}, now=NOW)
            assert (await read_schedule(store)).active == (job_id,)
            await self.lose(store, "elsewhere")
            await store.forget({}, now=later(1))
            found = await read_schedule(store)
            assert found.active == ()
            assert found.due_at is not None
            assert [one.name for one in (await store.due(now=later(7200), limit=10)).schedules] == ["hourly"]

    async def test_a_key_whose_job_is_gone_is_nobodys(self) -> None:
        async with self.opened() as store:
            await beat(store)
            await put(store, *(new_job(queue="elsewhere", unique_key=f"key {n}") for n in range(20)))
            await self.lose(store, "elsewhere")
            await self.notice(store)
            await audit(store._open())

    async def test_a_job_gets_the_key_back_of_which_nothing_is_written(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(unique_key=f"key {n}", idempotency_key=f"{n}") for n in range(20)))
            await beat(store)
            for shard in store._open().all:
                await shard.multi([("DEL", f"{shard.base}:key"), ("HINCRBY", f"{shard.base}:meta", "turns", -1)])
            await self.notice(store)
            await audit(store._open())
            assert await put(store, *(new_job(unique_key=f"key {n}") for n in range(20))) == ids

    async def test_a_key_that_its_job_has_let_go_is_nobodys(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key"))
            shard = store._open().of_key("ukey")
            await finish_run(store, await claim_job(store, job_id), Done())
            await shard.multi([
                ("HSET", f"{shard.base}:key", "ukey", packed(job_id)), ("HINCRBY", f"{shard.base}:meta", "turns", -1),
            ])  # fmt: skip
            await self.notice(store)
            await audit(store._open())

    async def test_it_is_seen_to_as_soon_as_a_beat_has_noticed_the_loss(self) -> None:
        async with self.opened() as store:
            await launch(store, job={"queue": "elsewhere"})
            await beat(store)
            await beat(store)
            await self.lose(store, "elsewhere")
            await self.notice(store)
            assert (await read_schedule(store)).active == ()
