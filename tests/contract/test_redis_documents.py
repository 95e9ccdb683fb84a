"""Documents, the audit log and the feed in Redis: pages, races, and data loss."""

from typing import Any, cast

import pytest

from books import audit
from mainspring.ids import new_id
from mainspring.records.audit import AuditEntry, AuditFilter
from mainspring.records.document import Document
from mainspring.records.feed import MIN_FEED_ITEMS
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis import audit as audit_log
from mainspring.stores.redis import documents
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import NOW, Contract, beat, later
from servers import Redis

NAMES = ["", "\0", "a", "a\0", "aa", "z", "\x7f", "\x80", "é", "\uffff", "\U00010000", "🕰", "[", "(", "+", "-"]


def a_document(name: str, **fields: Any) -> Document:
    return Document(**{"kind": "key", "name": name, "text": "text", **fields})


def an_entry(n: int, **fields: Any) -> AuditEntry:
    given = {"at": later(n), "who": "ada", "action": "jobs.cancel", "target": f"t{n}"}
    return AuditEntry(**{"id": new_id(later(n)), **given, **fields})


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url = redis, redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestPages(Served):
    @pytest.fixture(autouse=True, params=[1, 2, 3, 200])
    def _steps(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(documents, "PAGE_ROWS", request.param)
        monkeypatch.setattr(audit_log, "PAGE_ROWS", request.param)

    async def test_documents_are_paged_by_code_point(self) -> None:
        async with self.opened() as store:
            await store.put_documents([a_document(name) for name in NAMES], now=NOW)
            for size in (1, 3, 50):
                seen, after = list[str](), cast("str | None", None)
                while page := await store.documents("key", now=NOW, limit=size, after=after):
                    seen += [one.name for one in page]
                    after = seen[-1]
                assert seen == sorted(NAMES)
            for name in NAMES:
                found = await store.documents("key", now=NOW, limit=99, after=name)
                assert [one.name for one in found] == sorted(other for other in NAMES if other > name)
                assert await store.documents("key", NAMES, now=NOW, limit=99, after=name) == found

    async def test_expired_documents_do_not_shorten_a_page(self) -> None:
        async with self.opened() as store:
            names = [f"{n:02}" for n in range(20)]
            fields: list[dict[str, Any]] = [{"expires_at": later(1)} if n % 5 else {} for n in range(20)]
            await store.put_documents([a_document(n, **more) for n, more in zip(names, fields, strict=True)], now=NOW)
            for named in (None, names):
                found = await store.documents("key", named, now=later(1), limit=3)
                assert [one.name for one in found] == ["00", "05", "10"]

    async def test_audit_entries_that_do_not_match_do_not_shorten_a_page(self) -> None:
        async with self.opened() as store:
            entries = [an_entry(n, who="bob" if n % 5 == 0 else "ada") for n in range(20)]
            await store.record(entries)
            found = await store.audit(AuditFilter(who="bob"), limit=2)
            assert [one.target for one in found] == ["t15", "t10"]
            assert await store.audit(AuditFilter(who="bob"), limit=9, before=found[-1].id) == [entries[5], entries[0]]

    @pytest.mark.parametrize("few", [1, 2000])
    async def test_a_time_span_of_audit_entries_is_read_newest_first(
        self, monkeypatch: pytest.MonkeyPatch, few: int
    ) -> None:
        monkeypatch.setattr(audit_log, "MAX_SPAN_IDS", few)
        async with self.opened() as store:
            ids = sorted(new_id(later(n)) for n in range(6))
            # A process whose clock is behind acts later than its timestamps.
            entries = [an_entry(n, id=ids[n], at=later(at)) for n, at in enumerate([0, 3, 1, 2, 5, 4])]
            await store.record(entries)
            found = await store.audit(AuditFilter(since=later(1), until=later(5)), limit=2)
            assert found == [entries[5], entries[3]]
            rest = await store.audit(AuditFilter(since=later(1), until=later(5)), limit=9, before=found[-1].id)
            assert rest == [entries[2], entries[1]]


class TestSteps(Served):
    async def test_a_document_replaced_during_pruning_is_not_deleted(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await store.put_documents([a_document("a", expires_at=later(1))], now=NOW)
            before_it_writes(store, lambda: other.put_documents([a_document("a", text="new")], now=later(2)))
            assert (await store.prune({}, audited_since=NOW, now=later(2))).rows == 0
            assert [one.text for one in await store.documents("key", now=later(2), limit=9)] == ["new"]
            await audit(cast(RedisStore, store)._open())

    async def test_a_document_written_by_a_rival_is_refused(self) -> None:
        async with self.opened() as store, self.opened() as other:
            before_it_writes(store, lambda: other.put_documents([a_document("a", text="first")], now=NOW))
            mine = [a_document("a", text="mine"), a_document("b")]
            assert await store.put_documents(mine, now=NOW) == [False, True]
            assert [one.text for one in await store.documents("key", now=NOW, limit=9)] == ["first", "text"]

    async def test_an_audit_outcome_written_by_a_rival_is_kept(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await store.record([entry := an_entry(1)])
            before_it_writes(store, lambda: other.record([an_entry(1, id=entry.id, outcome="first")]))
            await store.record([an_entry(1, id=entry.id, outcome="mine")])
            assert [one.outcome for one in await store.audit(AuditFilter(), limit=9)] == ["first"]

    async def test_watch_does_not_shorten_a_rivals_watch(self) -> None:
        async with self.opened() as store, self.opened() as other:
            await other.news(after=0, limit=1, until=later(20))
            assert (await store.news(after=0, limit=1, until=later(10))).wanted_until == later(20)
            assert await store.publish([], now=NOW) == later(20)

    async def test_pruning_documents_deletes_in_batches_and_leaves_current_ones(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(documents, "PRUNE_ROWS", 3)
        monkeypatch.setattr(documents, "MAX_PRUNES", 2)
        async with self.opened() as store:
            await store.record([an_entry(n) for n in range(10)])
            await store.put_documents([a_document(str(n), expires_at=later(n)) for n in range(10)], now=NOW)
            went = [(await store.prune({}, audited_since=later(8), now=later(7))).rows for _ in range(3)]
            assert went == [12, 4, 0]
            assert [one.name for one in await store.documents("key", now=NOW, limit=99)] == ["8", "9"]
            assert [one.target for one in await store.audit(AuditFilter(), limit=99)] == ["t9", "t8"]
            await audit(cast(RedisStore, store)._open())


def before_it_writes(store: Store, deed: Any) -> None:
    """Runs it once, when the store has read everything and is about to write."""
    shard = cast(RedisStore, store)._open().first
    script, deeds = shard.script, [deed]

    async def later(name: str, words: Any) -> Any:
        if name == "commit" and deeds:
            await deeds.pop()()
        return await script(name, words)

    shard.script = later  # type: ignore[method-assign]


class TestNews(Served):
    async def test_more_feed_items_than_are_kept_may_be_published_at_once(self) -> None:
        async with self.opened() as store:
            await store.publish([str(n) for n in range(1, MIN_FEED_ITEMS + 2502)], now=NOW)
            feed = await store.news(after=0, limit=1)
            assert (feed.first, feed.last) == (2502, MIN_FEED_ITEMS + 2501)
            assert [(one.n, one.text) for one in feed.news] == [(2502, "2502")]
            await audit(cast(RedisStore, store)._open())

    @pytest.mark.parametrize("after", [3, 4, 2**53, 10**30])
    async def test_there_are_no_feed_items_beyond_the_newest(self, after: int) -> None:
        async with self.opened() as store:
            await store.publish(["a", "b", "c"], now=NOW)
            feed = await store.news(after=after, limit=10)
            assert (feed.news, feed.first, feed.last) == ([], 1, 3)
            assert (await store.news(after=0, limit=0)).news == []

    async def test_a_beat_reads_watched_until_without_another_round_trip(self) -> None:
        async with self.opened() as store:
            shard, ways = cast(RedisStore, store)._open().first, list[list[Any]]()
            multi = shard.multi

            async def noted(commands: Any) -> Any:
                ways.append([words[1] for words in commands if len(words) > 1])
                return await multi(commands)

            shard.multi = noted  # type: ignore[method-assign]
            await store.news(after=0, limit=0, until=later(20))
            ways.clear()
            assert (await beat(store)).watched_until == later(20)
            (way,) = [keys for keys in ways if "{fresh}:worker" in keys]
            assert "{fresh}:meta" in way


class TestLoss(Served):
    @pytest.mark.parametrize("how", ["anew", "older"])
    async def test_every_feed_reader_notices_a_data_loss(self, how: str) -> None:
        store = self.make_store()
        await store.open()
        await beat(store)
        await store.publish([str(n) for n in range(50)], now=NOW)
        seen = (await store.news(after=0, limit=99)).last
        if how == "anew":
            self.server.fresh()
        else:
            self.server.run("HINCRBY", "{fresh}:meta", "beats", -1)
            self.server.run("HINCRBY", "{fresh}:meta", "told", -30)
            self.server.run("LTRIM", "{fresh}:news", 0, 19)
        await store.publish([f"{n} that nobody will read" for n in range(60)], now=NOW)
        assert (await store.news(after=0, limit=1)).last > seen
        await beat(store)
        await store.publish(["new"], now=NOW)
        feed = await store.news(after=seen, limit=9)
        assert feed.first > seen + 1
        assert [one.text for one in feed.news] == ["new"]
        await store.publish(["next"], now=later(1))
        assert [one.n for one in (await store.news(after=seen, limit=9)).news] == [feed.last, feed.last + 1]
        await store.close()
