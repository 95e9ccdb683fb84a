"""The Redis store in a cluster: the contract, shards, and slots that move."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from sharing import Sharing

from books import audit
from clusters import RedisCluster
from mainspring import Limit, Mainspring, every
from mainspring.control.schedule_bulk import ScheduleFilter
from mainspring.errors import BadInput, StoreError
from mainspring.events import Bus
from mainspring.records.job import Action, State
from mainspring.records.limit import AT_ONCE, limit_key_of
from mainspring.records.outcome import Done
from mainspring.records.query import Update
from mainspring.schedule.edit import create
from mainspring.schedule.record import Spec
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.records import packed
from mainspring.stores.redis.store import RedisStore
from mainspring.stores.redis.url import slot
from mainspring.testing import VirtualClock
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    act,
    all_jobs,
    claim_ids,
    claim_job,
    finish_run,
    fire,
    new_job,
    put,
    read_job,
)
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.limit import NAME, LimitContract, put_limited, set_limit
from mainspring.testing.contract.limit_rows import LimitRowsContract
from mainspring.testing.contract.signal import SignalContract
from mainspring.trigger import Every
from mainspring.worker.scheduler import Scheduler
from servers import Redis


class Spread(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster: RedisCluster) -> None:
        self.cluster, self.url = redis_cluster, redis_cluster.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestCluster(
    Spread,
    StoreContract,
    CheckpointContract,
    FlowContract,
    FlowActionsContract,
    FlowRequestsContract,
    SignalContract,
    LimitContract,
    LimitRowsContract,
):
    """After every test the store is audited. Half the usual number of shards is more than there are masters, and to
    ask all of them costs half as much."""

    def make_store(self) -> Store:
        return open_store(f"{self.url}&homes=4")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with super().opened() as store:
            yield store
            if (shards := cast(RedisStore, store)._shards) is not None:
                await audit(shards)

    async def test_a_job_keeps_its_limit_key_in_every_other_change(self) -> None:
        """But it does not move to a queue whose jobs another shard counts."""
        async with self.opened() as store:
            await set_limit(store, running=1)
            first, second = await put_limited(store, "a", "a")
            moved = await act(store, Action.UPDATE, second, update=Update(queue="other"))
            assert "is counted in the cluster's home of its queue" in (moved.refused[second].error or "")
            await act(store, Action.UPDATE, second, update=Update(priority=9))
            assert await claim_ids(store) == [second]
            assert (await read_job(store, first)).limit_key == (await read_job(store, second)).limit_key

    async def test_a_limit_over_queues_of_two_shards_is_refused(self) -> None:
        async with self.opened() as store:
            await put_limited(store, "a")
            with pytest.raises(BadInput, match=r"the limit task:task .* the queue 'default', and the queue 'other' is"):
                await put_limited(store, "b", queue="other")
            assert len(await all_jobs(store)) == 1
            await put_limited(store, "a", name=f"{AT_ONCE}2")
            await put_limited(store, "b", name=f"{AT_ONCE}2", queue="other")

    async def test_a_job_that_another_one_enqueues_does_not_pass_a_limit_in_another_shard(self) -> None:
        async with self.opened() as store:
            (id,) = await put_limited(store, "a")
            job = await claim_job(store, id)
            then = new_job(queue="other", limit_key=limit_key_of(NAME, "b"))
            with pytest.raises(BadInput, match=r"the limit task:task .* and the queue 'other' is in another one"):
                await finish_run(store, job, Done(), then=(then,))
            assert (await read_job(store, job.id)).state is State.RUNNING
            assert await finish_run(store, job, Done(), then=(new_job(limit_key=limit_key_of(NAME, "b")),))

    async def test_the_holder_of_a_key_gets_no_limit_of_another_shard(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job(queue="other", unique_key="key"))
            await put_limited(store, "a")
            again = new_job(unique_key="key", on_conflict="replace", limit_key=limit_key_of(NAME, "b"))
            with pytest.raises(BadInput, match=r"the limit task:task .* and the queue 'other' is in another one"):
                await put(store, again)
            assert (await read_job(store, id)).limit_key is None

    async def test_a_tick_whose_limit_is_in_another_shard_is_skipped_and_says_why(self) -> None:
        async with self.opened() as store:
            await put_limited(store, "a")
            clock = VirtualClock(NOW)
            spec = Spec(trigger=Every(seconds=60), task="task", queue="other")
            await fire(store, create("minutely", spec, owner="user", now=NOW))
            limit_key = limit_key_of(NAME, "b")
            scheduler = Scheduler(clock, Bus(), {}, {}, payload_limit=1000, limit_key=lambda task, payload: limit_key)
            clock.advance(minutes=1)
            assert await scheduler.run_once(store) == 60
            (tick,) = await store.ticks("minutely", limit=9)
            assert tick.what == "skipped"
            assert "the limit task:task is counted in the cluster's home of the queue 'default'" in tick.reason
            assert len(await all_jobs(store)) == 1

    async def test_a_schedule_whose_limit_is_in_another_shard_is_not_triggered(self) -> None:
        async with Mainspring(f"{self.url}&homes=4") as app:
            work = app.task(a_task, limit=Limit(running=1))
            await work.enqueue()
            await app.schedules.create("hourly", every(1).hours, work, queue="other")
            with pytest.raises(BadInput, match=r"the queue 'default', and the queue 'other' is in another one"):
                await app.schedules.trigger("hourly")
            found = await app.schedules.many.trigger(ScheduleFilter())
            assert "the queue 'other' is in another one" in found.refused["hourly"]


async def a_task() -> None:
    pass


class TestSharing(Spread, Sharing):
    pass


class TestTrouble(Spread):
    async def test_the_number_of_shards_cannot_be_changed(self) -> None:
        async with self.opened():
            pass
        with pytest.raises(StoreError, match="keeps its queues in 8 homes, not 4: use \\?homes=8"):
            await open_store(f"{self.url}&homes=4").open()

    async def test_a_plain_redis_url_of_a_cluster_node_is_refused(self) -> None:
        with pytest.raises(StoreError, match=r"is a node of a cluster: use redis\+cluster://"):
            await open_store(self.cluster.nodes[0].url()).open()

    async def test_a_cluster_url_of_a_single_server_is_refused(self, redis: Redis) -> None:
        with pytest.raises(StoreError, match="is not a cluster: use redis://"):
            await open_store(redis.url().replace("redis://", "redis+cluster://")).open()

    async def test_one_reachable_node_is_enough_to_discover_the_cluster(self) -> None:
        url = self.url.replace("//", "//127.0.0.1:1,")
        store = open_store(url)
        await store.open()
        assert len(await put(store, *(new_job(queue=f"queue{n}") for n in range(20)))) == 20
        await store.close()

    async def test_queues_are_spread_over_all_masters(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job(queue=f"queue{n}") for n in range(40)))
            held = [
                [key for key in node.run("KEYS", "{fresh*") if key.endswith(b":job")] for node in self.cluster.nodes
            ]
            assert all(len(keys) >= 2 for keys in held)
            (found,) = [one for one in await store.diagnose() if one.about == "server"]
            assert found.text.endswith(", 3 masters")

    async def test_a_store_follows_a_slot_to_another_master(self) -> None:
        async with self.opened() as store:
            shard = cast(RedisStore, store)._open().of("queue")
            old = self.master_of(shard.base)
            new = next(node for node in self.cluster.nodes if node is not old)
            try:
                await put(store, new_job(queue="queue"))
                self.give(shard.base, new)
                (job_id,) = await put(store, new_job(queue="queue"))
                assert new.run("HEXISTS", f"{shard.base}:job", packed(job_id))
            finally:
                self.give(shard.base, old)

    def master_of(self, base: str) -> Redis:
        ranges = self.cluster.nodes[0].run("CLUSTER", "SLOTS")
        (port,) = [master[1] for low, high, master, *_ in ranges if low <= slot(base) <= high]
        return next(node for node in self.cluster.nodes if node.port == port)

    def give(self, base: str, node: Redis) -> None:
        """Assigns its slot, empty, to this node, and informs all nodes."""
        former, name = self.master_of(base), node.run("CLUSTER", "MYID")
        if keys := former.run("KEYS", f"{base}*"):
            former.run("UNLINK", *keys)
        for one in (node, former, *self.cluster.nodes):
            one.run("CLUSTER", "SETSLOT", slot(base), "NODE", name)
        node.run("CLUSTER", "BUMPEPOCH")  # else the announcement of the former node prevails
