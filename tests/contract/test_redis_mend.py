"""A node of a cluster that comes back as an older copy has lost jobs: what others tell of them holds nobody up."""

from typing import Any, cast

import pytest

from clusters import RedisCluster
from mainspring.stores import open_store
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import NOW, Contract, beat, everything, later, launch, row


class TestMend(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster: RedisCluster) -> None:
        self.url = redis_cluster.fresh()

    def make_store(self) -> RedisStore:
        return cast(RedisStore, open_store(self.url))

    async def lose(self, store: Any, queue: str) -> None:
        """All that the home of this queue has."""
        home = store._open().of(queue)
        assert home is not store._open().first
        await home.call("UNLINK", *await home.call("KEYS", f"{home.base}*"))
        assert await everything(store) == []

    @pytest.mark.parametrize("said", [{"overlap": "skip"}, {"overlap": "queue"}, {"after": "finish"}], ids=str)
    async def test_a_schedule_is_not_held_up_by_a_job_that_is_gone(self, said: dict[str, Any]) -> None:
        async with self.opened() as store:
            _, (job_id,) = await launch(store, said=said, job={"queue": "elsewhere"})
            await store.forget({}, now=NOW)
            assert (await row(store)).active == (job_id,)
            await self.lose(store, "elsewhere")
            await store.forget({}, now=later(1))
            found = await row(store)
            assert found.active == ()
            assert found.due_at is not None
            assert [one.name for one in (await store.due(now=later(7200), limit=10)).schedules] == ["hourly"]

    async def test_a_beat_that_notices_the_loss_sees_to_it_at_once(self) -> None:
        async with self.opened() as store:
            await launch(store, job={"queue": "elsewhere"})
            await beat(store)
            await beat(store)
            await self.lose(store, "elsewhere")
            await beat(store)
            assert (await row(store)).active == ()
