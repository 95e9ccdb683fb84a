"""Repair of the Redis store after a node came back as an older copy and lost jobs."""

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
        """All keys and values of the shard of this queue."""
        shard = store._open().of(queue)
        assert shard is not store._open().first
        await shard.call("UNLINK", *await shard.call("KEYS", f"{shard.base}*"))
        assert await all_jobs(store) == []

    async def notice(self, store: Store) -> None:
        """As every worker does."""
        await beat(store)
        await store.orphaned(now=NOW, limit=10)

    @pytest.mark.parametrize("spec", [{"overlap": "skip"}, {"overlap": "queue"}, {"after": "finish"}], ids=str)
    async def test_a_schedule_that_waits_for_a_lost_job_is_released(self, spec: dict[str, Any]) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store, spec=spec, job={"queue": "elsewhere"})
            await store.prune({}, audited_since=NOW, now=NOW)
            assert (await read_schedule(store)).active == (job_id,)
            await self.lose(store, "elsewhere")
            await store.prune({}, audited_since=NOW, now=later(1))
            found = await read_schedule(store)
            assert found.active == ()
            assert found.due_at is not None
            assert [one.name for one in (await store.due(now=later(7200), limit=10)).schedules] == ["hourly"]

    async def test_the_key_of_a_lost_job_is_freed(self) -> None:
        async with self.opened() as store:
            await beat(store)
            await put(store, *(new_job(queue="elsewhere", unique_key=f"key {n}") for n in range(20)))
            await self.lose(store, "elsewhere")
            await self.notice(store)
            await audit(store._open())

    async def test_a_lost_key_is_restored_to_its_job(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(unique_key=f"key {n}", idempotency_key=f"{n}") for n in range(20)))
            await beat(store)
            for shard in store._open().all:
                await shard.multi([("DEL", f"{shard.base}:key"), ("HINCRBY", f"{shard.base}:meta", "beats", -1)])
            await self.notice(store)
            await audit(store._open())
            assert await put(store, *(new_job(unique_key=f"key {n}") for n in range(20))) == ids

    async def test_a_key_that_its_job_no_longer_holds_is_freed(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key"))
            shard = store._open().of_key("ukey")
            await finish_run(store, await claim_job(store, job_id), Done())
            await shard.multi([
                ("HSET", f"{shard.base}:key", "ukey", packed(job_id)), ("HINCRBY", f"{shard.base}:meta", "beats", -1),
            ])  # fmt: skip
            await self.notice(store)
            await audit(store._open())

    async def test_the_store_is_repaired_after_a_beat_noticed_the_loss(self) -> None:
        async with self.opened() as store:
            await launch(store, job={"queue": "elsewhere"})
            await beat(store)
            await beat(store)
            await self.lose(store, "elsewhere")
            await self.notice(store)
            assert (await read_schedule(store)).active == ()
