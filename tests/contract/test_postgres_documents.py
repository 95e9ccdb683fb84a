"""Documents, audit and feed on PostgreSQL: commits out of order, crashes, dead rows, deadlocks, plans."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from filled import fill, told

from mainspring.records.audit import AuditFilter
from mainspring.records.document import Document, DocumentDrop
from mainspring.records.feed import MIN_FEED_ITEMS, Feed
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import audit, documents, feed
from mainspring.stores.postgres.pool import HOT_SETTINGS, READ_SETTINGS, Pool
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.audit import AuditContract, an_entry
from mainspring.testing.contract.build import NOW, Contract, a_worker, later
from mainspring.testing.contract.documents import DocumentContract, a_document, put, texts
from mainspring.testing.contract.feed import FeedContract
from servers import Postgres


class Kept(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()
        self.place = PostgresUrl(self.url, "")

    def make_store(self) -> Store:
        return open_store(self.url)

    @asynccontextmanager
    async def connected(self, **settings: str) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.server.dsn, server_settings=settings)
        try:
            yield connection
        finally:
            await connection.close()

    async def publish(self, connection: Any, *news: str) -> None:
        await connection.execute(self.place.sql(feed.PUBLISH), news, self.place.lock, MIN_FEED_ITEMS)


class TestContract(Kept, DocumentContract, AuditContract, FeedContract):
    """Their part of it, by itself."""


async def waits(server: Postgres, call: asyncio.Task[Any]) -> bool:
    """Whether it waits for a lock, once it does or has ended."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mainspring' AND wait_event_type = 'Lock'"
    async with asyncio.timeout(10):
        while not (waiting := (await asyncio.to_thread(server.run, sql))[0][0]) and not call.done():
            pass
    return bool(waiting)


class TestNews(Kept):
    async def test_publish_waits_for_an_earlier_open_transaction(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            await store.publish(["zeroth"], now=NOW)
            async with other.transaction():
                await self.publish(other, "first")
                publishing = asyncio.create_task(store.publish(["second"], now=NOW))
                waited = await waits(self.server, publishing)
                feed = await store.news(after=1, limit=10)
                assert (feed, waited) == (Feed([], 1, 1), True)
            await publishing
            feed = await store.news(after=feed.last, limit=10)
            assert [(one.n, one.text) for one in feed.news] == [(2, "first"), (3, "second")]

    async def test_rolled_back_publish_leaves_no_gap_in_numbers(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            await store.publish(["zeroth"], now=NOW)
            lost = other.transaction()
            await lost.start()
            await self.publish(other, "never said")
            publishing = asyncio.create_task(store.publish(["said"], now=NOW))
            assert await waits(self.server, publishing)
            await lost.rollback()
            await publishing
            assert [(one.n, one.text) for one in (await store.news(after=1, limit=10)).news] == [(2, "said")]

    async def test_feed_numbers_go_on_after_a_crash_and_readers_see_the_loss(self) -> None:
        async with self.opened() as store:
            await store.publish(["a", "b"], now=NOW)
            await store.news(after=0, limit=0, until=later(60))
            await asyncio.to_thread(self.server.crash)
            await asyncio.to_thread(self.server.start)
        async with self.opened() as store:
            feed = await store.news(after=1, limit=10)
            assert (feed.news, feed.first) == ([], feed.last + 1)
            assert feed.first > 3
            assert await store.publish(["c"], now=NOW) == later(60)
            again = await store.news(after=1, limit=10)
            assert [(one.n, one.text) for one in again.news] == [(feed.first, "c")]
            assert (again.first, again.last) == (feed.first, feed.first)

    @pytest.mark.parametrize("count", [1, 999, 1000, 1001, 7000])
    async def test_feed_keeps_a_bounded_number_of_items(self, count: int) -> None:
        async with self.opened() as store:
            # The first by the thousand, so that those in question are soon at the edge.
            for _ in range(11):
                await store.publish(["x"] * 1000, now=NOW)
            for _ in range(3):
                await store.publish(["y"] * count, now=NOW)
            feed = await store.news(after=0, limit=1)
            assert feed.last == 11_000 + 3 * count
            assert MIN_FEED_ITEMS <= feed.last - feed.first + 1 < MIN_FEED_ITEMS + 1000
            ((kept, first),) = self.server.run("SELECT count(*), min(n) FROM fresh.mainspring_news")
            assert (kept, first) == (feed.last - feed.first + 1, feed.first)

    @pytest.mark.parametrize("pooler", ["none", "transaction"])
    async def test_dead_rows_of_pruned_items_do_not_slow_the_feed(self, pooler: str) -> None:
        pool = Pool(PostgresUrl(f"{self.url}&pooler={pooler}", ""))
        async with self.opened() as store, self.connected() as holder:
            hold = holder.transaction(isolation="repeatable_read")
            await hold.start()
            await holder.execute("SELECT 1")  # from here on nothing is cleared away
            await store.publish(["x"] * 1000, now=NOW)
            # As autovacuum may at any time. A table whose rows are all dead makes the planner expect a single row.
            self.server.run("DELETE FROM fresh.mainspring_news")
            self.server.run("ANALYZE fresh.mainspring_news")
            for _ in range(99):
                await store.publish(["x"] * 1000, now=NOW)
            for _ in ("before", "after"):
                newest = (await store.news(after=0, limit=1)).last
                await store.publish(["x"] * (999 - newest % 1000), now=NOW)
                # 90,000 dead rows are on 700 pages or so; a thousand that go with the next one cost one each.
                assert await self.pages(pool, feed._READ, 0, 10, MIN_FEED_ITEMS) < 60
                assert await self.pages(pool, feed.PUBLISH, ["x"], self.place.lock, MIN_FEED_ITEMS) < 1500
                self.server.run("ANALYZE fresh.mainspring_news")
            await hold.rollback()
        await pool.close()

    async def pages(self, pool: Pool, sql: str, *values: Any) -> int:
        """The number of pages that the statement reads."""
        found = await pool.hot(lambda db: db.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", *values))
        plan = json.loads(found)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    async def test_last_beat_also_returns_watched_until(self) -> None:
        async with self.opened() as store:
            await store.news(after=0, limit=0, until=later(20))
            for until in (later(5), NOW):
                assert (await store.beat(a_worker(), until=until, now=NOW)).watched_until == later(20)


class TestDocuments(Kept):
    async def test_put_documents_in_opposite_order_does_not_deadlock(self) -> None:
        async with self.opened() as left, self.opened() as right, asyncio.timeout(20):
            names = [f"name {n}" for n in range(50)]
            before = self.deadlocks()

            async def write(store: Store, turn: int, names: list[str]) -> list[bool]:
                return await put(store, *(a_document(name, f"{turn} {id(store)}") for name in names))

            for turn in range(5):
                kind = await asyncio.gather(write(left, turn, names), write(right, turn, names[::-1]))
                first, second = kind[0], kind[1][::-1]
                assert all(a != b for a, b in zip(first, second, strict=True))
                drops = [DocumentDrop("key", name) for name in names]
                assert await left.put_documents(drops, now=NOW) == [True] * 50
            assert self.deadlocks() == before

    def deadlocks(self) -> int:
        return int(self.server.run("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0])

    async def test_concurrent_put_of_the_next_revision_waits_and_fails(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            await put(store, a_document("a"))
            async with other.transaction():
                await other.execute(self.place.sql("UPDATE mainspring_documents SET revision = 2, text = 'theirs'"))
                putting = asyncio.create_task(put(store, a_document("a", "ours", revision=2)))
                assert await waits(self.server, putting)
            assert (await putting, await texts(store)) == ([False], {"a": "theirs"})

    async def test_document_dropped_during_a_put_does_not_come_back(self) -> None:
        async with self.opened() as store, self.connected() as other, asyncio.timeout(20):
            await put(store, a_document("a"))
            async with other.transaction():
                await other.execute(self.place.sql("DELETE FROM mainspring_documents"))
                putting = asyncio.create_task(put(store, a_document("a", "ours", revision=2)))
                assert await waits(self.server, putting)
            assert (await putting, await texts(store)) == ([False], {})

    async def test_document_written_during_pruning_stays(self) -> None:
        async with self.opened() as store, self.connected() as other:
            await put(store, a_document("a", expires_at=later(1)), a_document("b", expires_at=later(1)))
            async with other.transaction():
                await other.execute(
                    self.place.sql("UPDATE mainspring_documents SET expires_at = NULL, text = 'new' WHERE name = 'a'")
                )
                assert (await store.prune({}, audited_since=NOW, now=later(2))).rows == 1
            assert await texts(store, now=later(2)) == {"a": "new"}

    async def test_pruning_documents_deletes_a_limited_number_of_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(documents, "MAX_PRUNED_DOCUMENTS", 2)
        monkeypatch.setattr(audit, "MAX_PRUNED_ENTRIES", 2)
        async with self.opened() as store:
            await put(store, *(a_document(name, expires_at=later(1)) for name in "abc"))
            await store.record([an_entry(n) for n in range(3)])
            gone = [(await store.prune({}, audited_since=later(9), now=later(9))).rows for _ in range(3)]
            assert gone == [4, 2, 0]


class TestPlace(Kept):
    async def test_two_apps_in_one_database_have_separate_documents(self) -> None:
        for url in (f"{self.url}&prefix=other_", self.server.own("elsewhere")):
            other = open_store(url)
            await other.open()
            async with self.opened() as store:
                await put(store, a_document())
                await store.record([an_entry(1)])
                await store.publish(["x"], now=NOW)
                await store.news(after=0, limit=0, until=later(9))
                assert await kept(other) == ([], [], Feed([], 1, 0), None)
                await other.publish(["y"], now=NOW)
                assert (await store.news(after=0, limit=9)).last == 1
                await store.put_documents([DocumentDrop("key", "one")], now=NOW)
            await other.migrate(0)
            await other.close()
            self.server.fresh()

    async def test_migration_down_drops_documents_audit_and_feed_only(self) -> None:
        store = open_store(self.server.own("own"))
        await store.open()
        await fill(store)
        before = await told(store)
        await put(store, a_document())
        await store.record([an_entry(1)])
        await store.publish(["a"], now=NOW)
        await store.news(after=0, limit=0, until=later(60))
        newest = (await store.schema()).newest
        assert await store.migrate(2) == list(range(newest - 1, 1, -1))
        assert await store.migrate() == list(range(3, newest + 1))
        assert await told(store) == before
        assert await kept(store) == ([], [], Feed([], 1, 0), None)
        assert await put(store, a_document()) == [True]
        await store.close()


async def kept(store: Store) -> tuple[list[Document], list[Any], Feed, Any]:
    return (
        await store.documents("key", now=NOW, limit=9),
        await store.audit(AuditFilter(), limit=9),
        await store.news(after=0, limit=9),
        await store.publish([], now=NOW),
    )


class TestPlans(Kept):
    async def test_audit_pages_use_the_primary_key_with_any_filter(self) -> None:
        async with self.opened() as store:
            await store.record([an_entry(n, who=f"who {n % 10}") for n in range(3000)])
        pool = Pool(self.place)
        for asked in ((None,) * 6, ("x", "who 1", "jobs", None, 0, 10**16)):

            async def plan(db: Any, values: tuple[Any, ...] = asked) -> list[Any]:
                await db.run(READ_SETTINGS)
                return await db.rows(f"EXPLAIN {audit._AUDIT}", *values, 50)

            lines = "\n".join(line for (line,) in await pool.transact(plan))
            assert "Index Scan Backward using mainspring_audit_pkey" in lines
            assert "Sort" not in lines
        await pool.close()

    async def test_documents_are_found_by_their_names(self) -> None:
        async with self.opened() as store, self.connected(**HOT_SETTINGS) as other:
            await put(store, *(a_document(f"{n:05}") for n in range(500)))
            for sql, values in (
                (documents.SELECT_ALL, ()),
                (documents.SELECT_AFTER, ("00100",)),
                (documents.SELECT_NAMED, (["00001", "00002"],)),
                (documents.SELECT_NAMED_AFTER, (["00001", "00002"], "00001")),
            ):
                rows = await other.fetch(f"EXPLAIN {self.place.sql(sql)}", "key", 0, 50, *values)
                assert "mainspring_documents_pkey" in "\n".join(line for (line,) in rows)
