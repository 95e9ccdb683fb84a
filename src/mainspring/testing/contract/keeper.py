"""What a store keeps for the service: documents, the audit trail, news."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ...ids import new_id
from ...records.audit import AuditEntry, AuditFilter
from ...records.document import MIN_PRUNED_ROWS, Document
from ...records.feed import MIN_FEED_ITEMS
from ...store import Store
from .build import NOW, Contract, beat, later

EVIL = ("O'Hara", 'say "hi"', "100%_", "{tag}", "a\\b", "ü ✓ 🕰", "*", "")


def a_document(name: str = "one", text: str = "text", *, kind: str = "key", **fields: Any) -> Document:
    return Document(kind=kind, name=name, text=text, **fields)


def an_entry(n: int, **fields: Any) -> AuditEntry:
    given = {"at": later(n), "who": "ada", "action": "jobs.cancel", "target": "a job"}
    return AuditEntry(**{"id": new_id(later(n)), **given, **fields})


async def put(store: Store, *documents: Document, now: datetime = NOW) -> list[bool]:
    return await store.put_documents(documents, now=now)


async def texts(store: Store, kind: str = "key", *, now: datetime = NOW, **asked: Any) -> dict[str, str]:
    found = await store.documents(kind, now=now, **{"limit": 100, **asked})
    return {document.name: document.text for document in found}


class DocumentContract(Contract):
    async def test_a_document_is_read_as_it_was_written(self) -> None:
        async with self.opened() as store:
            written = [a_document(name, f"text of {name}", expires_at=later(9)) for name in sorted(EVIL)]
            assert await put(store, *written) == [True] * len(EVIL)
            assert await store.documents("key", now=NOW, limit=100) == written
            assert await store.documents("key", ["*", "O'Hara", "none"], now=NOW, limit=100) == [
                one for one in written if one.name in ("*", "O'Hara")
            ]

    async def test_a_document_stands_only_at_the_revision_after_the_one_that_is_there(self) -> None:
        async with self.opened() as store:
            assert await put(store, a_document("a", revision=2)) == [False]
            assert await put(store, a_document("a"), a_document("a", "new", revision=2)) == [True, True]
            refused = [a_document("a", "late", revision=2), a_document("a", "first"), a_document("a", revision=4)]
            assert await put(store, *refused) == [False, False, False]
            assert await texts(store) == {"a": "new"}

    async def test_of_many_that_put_the_first_revision_one_stands(self) -> None:
        async with self.opened() as store:
            asked = [put(store, a_document("a", f"text {n}")) for n in range(20)]
            told = [stands for (stands,) in await asyncio.gather(*asked)]
            assert sum(told) == 1
            assert await texts(store) == {"a": f"text {told.index(True)}"}

    async def test_what_is_told_again_as_it_is_stands(self) -> None:
        async with self.opened() as store:
            first, second = a_document("a"), a_document("a", "new", revision=2, expires_at=later(9))
            assert await put(store, first) == [True]
            assert await put(store, first) == [True]
            assert await put(store, second) == [True]
            assert await put(store, second) == [True]
            assert await put(store, replace(second, expires_at=None)) == [False]
            assert await put(store, second, now=later(9)) == [False]

    async def test_an_expired_document_is_not_there_and_its_name_is_free(self) -> None:
        async with self.opened() as store:
            await put(store, a_document("a", expires_at=later(10)), a_document("b"))
            assert await texts(store, now=later(9.999)) == {"a": "text", "b": "text"}
            assert await texts(store, now=later(10)) == {"b": "text"}
            assert await texts(store, names=["a"], now=later(10)) == {}
            assert await put(store, a_document("a", "again"), now=later(9)) == [False]
            assert await put(store, a_document("a", "late", revision=2), now=later(10)) == [False]
            assert await put(store, a_document("a", "again"), now=later(10)) == [True]
            assert await texts(store, now=later(10)) == {"a": "again", "b": "text"}

    async def test_documents_are_paged_by_name_and_each_kind_is_for_itself(self) -> None:
        async with self.opened() as store:
            await put(store, *(a_document(name) for name in "dacb"), a_document("a", "another", kind="hook"))
            assert list(await texts(store, limit=2)) == ["a", "b"]
            assert list(await texts(store, limit=2, after="b")) == ["c", "d"]
            assert list(await texts(store, names=["a", "c", "d"], limit=2, after="a")) == ["c", "d"]
            assert await texts(store, "hook") == {"a": "another"}

    async def test_dropped_documents_are_gone_and_begin_anew(self) -> None:
        async with self.opened() as store:
            await put(store, a_document("a"), a_document("a", "new", revision=2), a_document("b"))
            assert await store.drop_documents("key", ["b", "a", "none"]) == ["a", "b"]
            assert await store.drop_documents("key", ["a"]) == []
            assert await put(store, a_document("a", "born again")) == [True]
            assert await texts(store) == {"a": "born again"}


class AuditContract(Contract):
    async def test_nothing_recorded_leaves_nothing_behind(self) -> None:
        async with self.opened() as store:
            await store.record([])
            assert await store.audit(AuditFilter(), limit=10) == []

    async def test_the_trail_is_read_newest_first_page_by_page(self) -> None:
        async with self.opened() as store:
            entries = [an_entry(n, who=who, asked='{"n":1}') for n, who in enumerate(EVIL)]
            await store.record(entries)
            found = await store.audit(AuditFilter(), limit=3)
            assert found == entries[:-4:-1]
            assert await store.audit(AuditFilter(), limit=100, before=found[-1].id) == entries[-4::-1]

    async def test_the_trail_is_filtered_by_who_what_and_when(self) -> None:
        async with self.opened() as store:
            acts = ["jobs.cancel", "jobs.retry", "jobsx.cancel", "schedules.pause"]
            entries = [
                an_entry(n, who="bob" if n % 2 else "ada", action=act, target=f"t{n}") for n, act in enumerate(acts)
            ]
            await store.record(entries)

            async def asked(**which: Any) -> list[str]:
                return [one.target for one in await store.audit(AuditFilter(**which), limit=100)]

            assert await asked(who="bob") == ["t3", "t1"]
            assert await asked(action="jobs.cancel") == ["t0"]
            assert await asked(action="jobs") == ["t1", "t0"]
            assert await asked(target="t2") == ["t2"]
            assert await asked(since=later(1), until=later(3)) == ["t2", "t1"]
            assert await asked(who="ada", action="jobs") == ["t0"]

    async def test_an_entry_gets_its_outcome_once_and_nothing_else_of_it_changes(self) -> None:
        async with self.opened() as store:
            entry = an_entry(1)
            await store.record([entry])
            await store.record([entry])
            told = an_entry(1, id=entry.id, who="mallory", at=later(9), outcome='{"done":1}')
            await store.record([told])
            await store.record([an_entry(1, id=entry.id, who="eve", outcome='{"done":2}')])
            (found,) = await store.audit(AuditFilter(), limit=100)
            assert (found.who, found.at, found.outcome) == ("ada", later(1), '{"done":1}')

    async def test_tidying_takes_what_expired_and_what_is_older_and_leaves_the_rest(self) -> None:
        async with self.opened() as store:
            await store.record([an_entry(n) for n in range(4)])
            await put(
                store, a_document("a", expires_at=later(1)), a_document("b", expires_at=later(9)), a_document("c")
            )
            assert await store.tidy(audited_since=later(2), now=later(1)) == 3
            assert [entry.at for entry in await store.audit(AuditFilter(), limit=100)] == [later(3), later(2)]
            assert list(await texts(store, now=later(1))) == ["b", "c"]
            assert await store.tidy(audited_since=later(2), now=later(1)) == 0

    async def test_a_tidying_that_takes_few_has_left_nothing(self) -> None:
        async with self.opened() as store:
            old = [a_document(f"{n}", expires_at=NOW) for n in range(3 * MIN_PRUNED_ROWS)]
            await put(store, *old, now=later(-1))
            await store.record([an_entry(n) for n in range(2 * MIN_PRUNED_ROWS)])
            gone = [MIN_PRUNED_ROWS]
            while gone[-1] >= MIN_PRUNED_ROWS:
                gone.append(await store.tidy(audited_since=later(9999), now=NOW))
            assert sum(gone[1:]) == 5 * MIN_PRUNED_ROWS
            assert await store.tidy(audited_since=later(9999), now=NOW) == 0


class NewsContract(Contract):
    async def test_news_are_numbered_on_and_read_in_order(self) -> None:
        async with self.opened() as store:
            assert (await store.news(after=0, limit=10)).last == 0
            await store.publish(["a", "b"], now=NOW)
            await store.publish([*EVIL], now=NOW)
            feed = await store.news(after=1, limit=3)
            assert [(one.n, one.text) for one in feed.news] == [(2, "b"), (3, EVIL[0]), (4, EVIL[1])]
            assert (feed.first, feed.last) == (1, 2 + len(EVIL))
            assert (await store.news(after=feed.last, limit=10)).news == []

    async def test_many_may_publish_at_once_and_a_reader_misses_nothing(self) -> None:
        async with self.opened() as store:

            async def tell(who: str) -> None:
                for n in range(20):
                    await store.publish([f"{who}{n}", f"{who}{n}+"], now=NOW)

            async def read() -> list[tuple[int, str]]:
                seen: list[tuple[int, str]] = []
                while len(seen) < 160:
                    feed = await store.news(after=seen[-1][0] if seen else 0, limit=50)
                    seen += [(one.n, one.text) for one in feed.news]
                    await asyncio.sleep(0)
                return seen

            async with asyncio.timeout(30), asyncio.TaskGroup() as together:
                reading = together.create_task(read())
                for who in "abcd":
                    together.create_task(tell(who))
            seen = reading.result()
            assert [n for n, _ in seen] == list(range(1, 161))
            said = [text for _, text in seen]
            assert all(said[at + 1] == f"{text}+" for at, text in enumerate(said) if not text.endswith("+"))

    async def test_the_newest_are_kept_and_the_feed_says_what_is_not(self) -> None:
        async with self.opened() as store:
            count = 2 * MIN_FEED_ITEMS + 3000
            for n in range(0, count, 1000):
                await store.publish([str(n + i) for i in range(1000)], now=NOW)
            feed = await store.news(after=0, limit=5)
            assert feed.last == count
            assert 1 < feed.first <= count - MIN_FEED_ITEMS + 1
            assert [one.n for one in feed.news] == list(range(feed.first, feed.first + 5))

    async def test_who_wants_news_is_heard_by_those_who_have_some(self) -> None:
        async with self.opened() as store:
            assert await store.watched() is None
            assert (await beat(store)).watched_until is None
            assert await store.publish(["a"], now=NOW) is None
            await store.watch(until=later(20), now=NOW)
            await store.watch(until=later(10), now=NOW)
            assert await store.watched() == later(20)
            assert await store.publish(["a"], now=NOW) == later(20)
            assert (await beat(store)).watched_until == later(20)

    async def test_publishing_nothing_says_who_watches_and_no_more(self) -> None:
        async with self.opened() as store:
            assert await store.publish([], now=NOW) is None
            feed = await store.news(after=0, limit=10)
            assert (feed.news, feed.first, feed.last) == ([], 1, 0)
