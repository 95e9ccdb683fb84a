"""On every store that keeps records as text or bytes, an unreadable record affects no other."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import cast

import pytest

from clusters import RedisCluster
from mainspring.ids import JobId
from mainspring.records.audit import AuditFilter
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.records import packed
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.audit import an_entry
from mainspring.testing.contract.build import NOW, beat, claim, claim_ids, later, new_job, put
from mainspring.testing.contract.unreadable import UnreadableContract
from servers import Postgres, Redis

# Broken values, by the kind of damage.
SPOILED_SQLITE = {
    "options are no JSON": "options = '{\"schedule\": ' || id",
    "options are of another type": "options = '{\"tags\": 5}'",
    "the payload is not UTF-8": "payload = CAST(x'ff61' AS TEXT)",
    "the failure is no JSON": "failure = 'x'",
}


class OnTables(UnreadableContract):
    async def test_an_unreadable_worker_row_does_not_stop_a_migration(self) -> None:
        async with self.opened() as store:
            await beat(store, "ada", until=later(10**9))
            await self.spoil_worker("ada")
            await store.migrate(0)
            await store.migrate()
            assert await store.workers(now=NOW) == []


@pytest.mark.parametrize("spoiled", SPOILED_SQLITE)
class TestSqlite(OnTables):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path, spoiled: str) -> None:
        self.file, self.how = tmp_path / "jobs.db", SPOILED_SQLITE[spoiled]

    def make_store(self) -> Store:
        return open_store(f"sqlite:///{self.file}")

    def run(self, sql: str, *values: str) -> None:
        with closing(sqlite3.connect(self.file, timeout=30)) as db, db:
            assert db.execute(sql, values).rowcount == 1

    async def spoil_job(self, job_id: JobId) -> None:
        self.run(f"UPDATE mainspring_jobs SET {self.how} WHERE id = ?", job_id)

    async def spoil_schedule(self, name: str) -> None:
        self.run("UPDATE mainspring_schedules SET body = '{\"name\":' WHERE name = ?", name)

    async def spoil_worker(self, id: str) -> None:
        self.run("UPDATE mainspring_workers SET info = '{', orders = '[' WHERE id = ?", id)

    async def spoil_document(self, kind: str, name: str) -> None:
        sql = "UPDATE mainspring_documents SET text = CAST(x'ff61' AS TEXT) WHERE kind = ? AND name = ?"
        self.run(sql, kind, name)


SPOILED_POSTGRES = {
    "options are no JSON": "options = '{\"schedule\": '",
    "the failure is of another type": "failure = '{\"type\": 5}'",
}


@pytest.mark.parametrize("spoiled", SPOILED_POSTGRES)
class TestPostgres(OnTables):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres, spoiled: str) -> None:
        self.server, self.url, self.how = postgres, postgres.fresh(), SPOILED_POSTGRES[spoiled]

    def make_store(self) -> Store:
        return open_store(self.url)

    async def spoil_job(self, job_id: JobId) -> None:
        for table in ("jobs", "finished"):
            self.server.run(f"UPDATE fresh.mainspring_{table} SET {self.how} WHERE id = '{job_id}'")

    async def spoil_schedule(self, name: str) -> None:
        self.server.run(f"UPDATE fresh.mainspring_schedules SET body = '{{' WHERE name = '{name}'")

    async def spoil_worker(self, id: str) -> None:
        self.server.run(f"UPDATE fresh.mainspring_workers SET info = '{{', orders = '[' WHERE id = '{id}'")

    async def spoil_document(self, kind: str, name: str) -> None:
        where = f"WHERE kind = '{kind}' AND name = '{name}'"
        self.server.run(f"UPDATE fresh.mainspring_documents SET text = '{{' {where}")


# The first byte has what the scripts need to know of a job.
SPOILED_REDIS = {
    "no msgpack": b"@\xc1",
    "nothing at all": b"",
    "too few values": b"@\x92\xa7default\xa4task",
    "values of other types": b"@\x95\xa7default\xa4task\x00\xa1x\xa2{}",
}


class OnRedis(UnreadableContract):
    url: str
    record: bytes

    def make_store(self) -> Store:
        return open_store(self.url)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with super().opened() as store:
            shards = cast(RedisStore, store)._shards
            assert shards is not None
            self.shards = shards
            yield store

    async def spoil_job(self, job_id: JobId) -> None:
        for shard in self.shards.all:
            if await shard.call("HEXISTS", f"{shard.base}:job", packed(job_id)):
                await shard.call("HSET", f"{shard.base}:job", packed(job_id), self.record)

    async def spoil_schedule(self, name: str) -> None:
        await self.shards.first.call("HSET", f"{self.shards.first.base}:schedule", name, "{")

    async def spoil_worker(self, id: str) -> None:
        await self.shards.first.call("HSET", f"{self.shards.first.base}:worker", id, "{")

    async def spoil_document(self, kind: str, name: str) -> None:
        await self.shards.first.call("HSET", f"{self.shards.first.base}:doc:{kind}", name, b"{\xff")

    @pytest.mark.parametrize("record", [b"{", b'{"name":"one","holder":5,"term":41,"until":7}'])
    async def test_an_unreadable_leader_blocks_other_candidates_for_one_term(self, record: bytes) -> None:
        async with self.opened() as store:
            before = await store.acquire_term("one", "ada", until=later(30), now=NOW)
            await store.acquire_term("other", "ada", until=later(30), now=NOW)
            await self.shards.first.call("HSET", f"{self.shards.first.base}:leader", "one", record)
            assert [one.name for one in await store.terms(now=NOW)] == ["other"]
            held = await store.acquire_term("one", "bob", until=later(60), now=later(30))
            assert held.holder not in ("ada", "bob")
            assert (await store.acquire_term("one", "bob", until=later(89), now=later(59))).holder == held.holder
            after = await store.acquire_term("one", "bob", until=later(90), now=later(60))
            assert after.holder == "bob"
            assert after.term > max(before.term, 41)

    async def test_an_unreadable_audit_entry_is_left_out_and_pruned(self) -> None:
        async with self.opened() as store:
            first, broken, last = (an_entry(n) for n in range(3))
            await store.record([first, broken, last])
            shard = self.shards.first
            await shard.call("HSET", f"{shard.base}:entry", broken.id, "{")
            found = await store.audit(AuditFilter(), limit=10)
            assert [one.id for one in found] == [last.id, first.id]
            await store.record([broken])
            assert await shard.call("HGET", f"{shard.base}:entry", broken.id) == b"{"
            await store.prune({}, audited_since=later(10**6), now=NOW)
            assert await shard.call("HLEN", f"{shard.base}:entry") == 0


@pytest.mark.parametrize("spoiled", SPOILED_REDIS)
class TestRedis(OnRedis):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis, spoiled: str) -> None:
        self.url, self.record = redis.fresh(), SPOILED_REDIS[spoiled]

    async def test_a_malformed_member_of_a_ready_set_does_not_stop_claims(self) -> None:
        async with self.opened() as store:
            ids = await put(store, new_job(), new_job())
            shard = self.shards.first
            for member in (b"", b"short", b"\0" * 10):
                await shard.call("ZADD", f"{shard.base}:ready:default\0task", 0, member)
            assert await claim_ids(store) == ids
            finding = next(one for one in await store.diagnose() if one.about == "index")
            assert finding.verdict == "warn"
            assert "3 index entries" in finding.text

    async def test_ready_set_members_without_a_job_are_removed_by_claims(self) -> None:
        async with self.opened() as store:
            shard = self.shards.first
            for n in range(20):
                await shard.call("ZADD", f"{shard.base}:ready:default\0task", 0, b"\x7f" * (20 + n))
            ids = await put(store, new_job(), new_job())
            await beat(store)
            taken = [job.id for _ in range(20) for job in (await claim(store, limit=2)).jobs]
            assert taken == ids
            assert await shard.call("ZCARD", f"{shard.base}:ready:default\0task") == 0


@pytest.mark.parametrize("spoiled", ["no msgpack", "values of other types"])
class TestRedisCluster(OnRedis):
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster: RedisCluster, spoiled: str) -> None:
        self.url, self.record = redis_cluster.fresh(), SPOILED_REDIS[spoiled]
