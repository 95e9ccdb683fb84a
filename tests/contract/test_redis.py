"""The Redis store on one server: the contract, errors of the server, and data loss."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import pytest
from sharing import Sharing

from books import audit
from mainspring.clock import micros
from mainspring.config import Settings
from mainspring.errors import StoreError, StoreUnavailable
from mainspring.records.job import Action, State
from mainspring.records.outcome import Done
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.connection import REPLY_SECONDS
from mainspring.stores.redis.records import claim_key, packed
from mainspring.stores.redis.server import SCRIPTS
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import NOW, Contract, act, all_jobs, beat, claim, finish_run, new_job, put, start
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.limit import LimitContract
from mainspring.testing.contract.limit_rows import LimitRowsContract
from mainspring.testing.contract.signal import SignalContract
from mainspring.worker.heartbeat import GIVE_UP_LEASE_SHARE
from servers import Redis

T = TypeVar("T")


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url = redis, redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestRedis(
    Served,
    StoreContract,
    CheckpointContract,
    FlowContract,
    FlowActionsContract,
    FlowRequestsContract,
    SignalContract,
    LimitContract,
    LimitRowsContract,
):
    """After every test the store is audited."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with super().opened() as store:
            yield store
            if (shards := cast(RedisStore, store)._shards) is not None:
                await audit(shards)


class TestGroupIndex(TestRedis):
    """The contract with the index of groups that claims otherwise make for many groups only."""

    @pytest.fixture(autouse=True)
    def _few_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limits = "COMPARED_GROUPS = 32, 16, 16, 32"
        assert limits in SCRIPTS["claim"]
        monkeypatch.setitem(SCRIPTS, "claim", SCRIPTS["claim"].replace(limits, "COMPARED_GROUPS = 0, 0, 1, 1"))


@pytest.fixture(scope="module")
def valkey() -> Iterator[Redis]:
    server = Redis("valkey-9")
    try:
        yield server
    finally:
        server.close()


@pytest.mark.slow
class TestValkey(TestRedis):
    @pytest.fixture(autouse=True)
    def _server(self, valkey: Redis) -> None:
        self.server, self.url = valkey, valkey.fresh()


class TestSharing(Served, Sharing):
    async def test_two_apps_on_one_server_are_separate(self) -> None:
        other = open_store(self.server.fresh("other"))
        await other.open()
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key"))
            assert await put(other, new_job(unique_key="key")) != [job_id]
            await beat(other)
            assert [job.id for job in (await claim(other)).jobs] != [job_id]
        await other.close()


class TestTrouble(Served):
    async def test_a_server_that_may_evict_jobs_is_refused(self) -> None:
        self.server.run("CONFIG", "SET", "maxmemory", "100mb")
        self.server.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(StoreError, match="may evict jobs: its maxmemory-policy is allkeys-lru"):
                await self.make_store().open()
        finally:
            self.server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
            self.server.run("CONFIG", "SET", "maxmemory", "0")

    async def test_a_full_server_is_unavailable_but_lets_jobs_end(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            self.server.run("CONFIG", "SET", "maxmemory", "10kb")
            try:
                with pytest.raises(StoreUnavailable, match=r"cannot do that now: .*maxmemory"):
                    await put(store, new_job())
            finally:
                self.server.run("CONFIG", "SET", "maxmemory", "0")
            assert await finish_run(store, job, Done()) == {job.id}

    async def test_scripts_are_loaded_again_after_a_script_flush(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            self.server.run("SCRIPT", "FLUSH")
            assert await finish_run(store, job, Done()) == {job.id}
            self.server.run("SCRIPT", "FLUSH")
            assert len(await put(store, new_job())) == 1

    async def test_an_unreachable_server_is_unavailable(self) -> None:
        with pytest.raises(StoreUnavailable, match=r"cannot reach redis://127\.0\.0\.1:1"):
            await open_store("redis://127.0.0.1:1/0").open()

    async def test_a_wrong_password_is_a_store_error_and_is_not_shown(self) -> None:
        url = self.url.replace("redis://", "redis://ada:secret@")
        with pytest.raises(StoreError, match="refused us") as refused:
            await open_store(url).open()
        assert not isinstance(refused.value, StoreUnavailable)
        assert "secret" not in str(refused.value)

    async def test_lost_connections_are_reopened(self) -> None:
        async with self.opened() as store:
            (first,) = await put(store, new_job())
            self.server.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            found = await insisted(lambda: all_jobs(store))
            assert [job.id for job in found] == [first]

    def test_the_reply_timeout_leaves_time_for_another_beat(self) -> None:
        usual = Settings()
        assert usual.beat + REPLY_SECONDS + usual.beat / 2 < GIVE_UP_LEASE_SHARE * usual.lease

    async def test_a_cancelled_caller_does_not_desynchronise_the_connection(self) -> None:
        async with self.opened() as store:
            calls = [asyncio.ensure_future(put(store, new_job())) for _ in range(50)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert len(await put(store, new_job())) == 1
            assert all(job.state is State.PENDING for job in await all_jobs(store))

    async def test_the_error_of_a_cancelled_call_is_not_logged(self) -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with self.opened() as store:
            self.server.run("CLIENT", "PAUSE", 60_000, "WRITE")
            try:
                call = asyncio.ensure_future(put(store, new_job()))
                async with asyncio.timeout(10):
                    while b"flags=b" not in self.server.run("CLIENT", "LIST"):
                        await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                self.server.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            finally:
                self.server.run("CLIENT", "UNPAUSE")
            if left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left, timeout=10)
            del call, left
        gc.collect()
        assert told == []

    async def test_an_index_entry_without_a_job_is_skipped_removed_and_counted(self) -> None:
        async with self.opened() as store:
            gone, kept = await put(store, new_job(), new_job())
            self.server.run("HDEL", "{fresh}:job", packed(gone))
            await beat(store)
            assert [job.id for job in (await claim(store, limit=2)).jobs] == [kept]
            assert self.server.run("ZCARD", "{fresh}:ready:default\0task") == 0
            found = {finding.about: finding.verdict for finding in await store.diagnose()}
            assert found["index"] == "warn"

    async def test_an_index_entry_of_a_running_job_is_not_claimed(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            entry = claim_key(job.priority, micros(job.run_at), packed(job.id))
            self.server.run("ZADD", "{fresh}:ready:default\0task", 0, entry)
            self.server.run("SADD", "{fresh}:stocked", "default\0task")
            await beat(store, "bob")
            assert (await claim(store, "bob")).jobs == []
            assert await all_jobs(store) == [job]

    async def test_names_without_jobs_are_removed_from_the_registers(self) -> None:
        async with self.opened() as store:
            await finish_run(store, job := await start(store), Done())
            assert self.server.run("SMEMBERS", "{fresh}:ends")
            assert self.server.run("SMEMBERS", "{fresh}:holders")
            await store.prune({}, audited_since=NOW, now=NOW)
            assert self.server.run("SMEMBERS", "{fresh}:ends")
            assert not self.server.run("SMEMBERS", "{fresh}:holders")
            await act(store, Action.DELETE, job.id)
            await store.prune({}, audited_since=NOW, now=NOW)
            assert not self.server.run("KEYS", "{fresh}:groups")
            assert not self.server.run("KEYS", "{fresh}:ends")


class TestLoss:
    @pytest.fixture
    def server(self) -> Iterator[Redis]:
        server = Redis(appendonly=True, appendfsync="always")
        try:
            yield server
        finally:
            server.close()

    async def test_accepted_jobs_survive_a_crash_with_an_append_only_file(self, server: Redis) -> None:
        store = open_store(server.url())
        await store.open()
        ids = await put(store, *(new_job() for _ in range(100)))
        server.crash()
        with pytest.raises(StoreUnavailable):
            await put(store, new_job())
        server.start()
        assert [job.id for job in await insisted(lambda: all_jobs(store))] == sorted(ids)
        await store.close()

    async def test_a_server_restarted_empty_is_logged_as_data_loss(
        self, server: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = open_store(server.url())
        await store.open()
        await beat(store)
        server.run("FLUSHALL")
        await beat(store)
        assert "was restarted empty: all jobs that it had are lost" in caplog.text
        (finding,) = [one for one in await store.diagnose() if one.about == "epoch"]
        assert finding.verdict == "bad"
        await store.close()

    @pytest.mark.parametrize("beats", [1, 3])
    async def test_a_server_restored_from_an_older_copy_is_logged_as_data_loss(
        self, server: Redis, caplog: pytest.LogCaptureFixture, beats: int
    ) -> None:
        store = open_store(server.fresh("mainspring"))
        await store.open()
        await beat(store)
        turns = int(server.run("HGET", "{mainspring}:meta", "beats"))
        for _ in range(beats):
            await beat(store)
        assert not caplog.records
        server.run("HSET", "{mainspring}:meta", "beats", turns)
        await beat(store)
        assert f"was restored from an older copy: what the last {beats} beats wrote is lost" in caplog.text
        await store.close()


async def insisted(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats the call until the server is available again; returns its result."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0)
