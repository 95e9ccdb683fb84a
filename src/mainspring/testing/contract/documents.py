"""put_documents, documents and prune: revisions decide which write stands, and documents expire."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ...records.audit import AuditFilter
from ...records.document import MIN_PRUNED_ROWS, Document, DocumentDrop
from ...store import Store
from .audit import an_entry
from .build import NOW, SPECIAL_TEXTS, Contract, later
from .sentences import proves


def a_document(name: str = "one", text: str = "text", *, kind: str = "key", **fields: Any) -> Document:
    return Document(kind=kind, name=name, text=text, **fields)


async def put(store: Store, *documents: Document, now: datetime = NOW) -> list[bool]:
    return await store.put_documents(documents, now=now)


async def drop(store: Store, *names: str, now: datetime = NOW) -> list[bool]:
    return await store.put_documents([DocumentDrop("key", name) for name in names], now=now)


async def texts(store: Store, kind: str = "key", *, now: datetime = NOW, **query: Any) -> dict[str, str]:
    """The texts of documents by name."""
    found = await store.documents(kind, now=now, **{"limit": 100, **query})
    return {document.name: document.text for document in found}


class DocumentContract(Contract):
    @proves("DO4", "V10")
    async def test_a_document_is_read_as_it_was_written(self) -> None:
        async with self.opened() as store:
            written = [a_document(name, f"text of {name}", expires_at=later(9)) for name in sorted(SPECIAL_TEXTS)]
            assert await put(store, *written) == [True] * len(SPECIAL_TEXTS)
            assert await store.documents("key", now=NOW, limit=100) == written
            assert await store.documents("key", ["*", "O'Hara", "none"], now=NOW, limit=100) == [
                one for one in written if one.name in ("*", "O'Hara")
            ]

    @proves("DO1")
    async def test_a_document_is_written_only_at_the_next_revision(self) -> None:
        async with self.opened() as store:
            assert await put(store, a_document("a", revision=2)) == [False]
            assert await put(store, a_document("a"), a_document("a", "new", revision=2)) == [True, True]
            refused = [a_document("a", "late", revision=2), a_document("a", "first"), a_document("a", revision=4)]
            assert await put(store, *refused) == [False, False, False]
            assert await texts(store) == {"a": "new"}

    @proves("DO1", "V1")
    async def test_one_of_many_concurrent_first_revisions_of_a_document_is_written(self) -> None:
        async with self.opened() as store:
            writes = [put(store, a_document("a", f"text {n}")) for n in range(20)]
            written = [stands for (stands,) in await asyncio.gather(*writes)]
            assert sum(written) == 1
            assert await texts(store) == {"a": f"text {written.index(True)}"}

    @proves("DO2")
    async def test_put_documents_is_idempotent(self) -> None:
        async with self.opened() as store:
            first, second = a_document("a"), a_document("a", "new", revision=2, expires_at=later(9))
            assert await put(store, first) == [True]
            assert await put(store, first) == [True]
            assert await put(store, second) == [True]
            assert await put(store, second) == [True]
            assert await put(store, replace(second, expires_at=None)) == [False]
            assert await put(store, second, now=later(9)) == [False]

    @proves("DO1", "DO5")
    async def test_an_expired_document_is_not_returned_and_its_name_is_free(self) -> None:
        async with self.opened() as store:
            await put(store, a_document("a", expires_at=later(10)), a_document("b"))
            assert await texts(store, now=later(9.999)) == {"a": "text", "b": "text"}
            assert await texts(store, now=later(10)) == {"b": "text"}
            assert await texts(store, names=["a"], now=later(10)) == {}
            assert await put(store, a_document("a", "again"), now=later(9)) == [False]
            assert await put(store, a_document("a", "late", revision=2), now=later(10)) == [False]
            assert await put(store, a_document("a", "again"), now=later(10)) == [True]
            assert await texts(store, now=later(10)) == {"a": "again", "b": "text"}

    @proves("DO4")
    async def test_documents_are_paged_by_name_within_their_kind(self) -> None:
        async with self.opened() as store:
            await put(store, *(a_document(name) for name in "dacb"), a_document("a", "another", kind="hook"))
            assert list(await texts(store, limit=2)) == ["a", "b"]
            assert list(await texts(store, limit=2, after="b")) == ["c", "d"]
            assert list(await texts(store, names=["a", "c", "d"], limit=2, after="a")) == ["c", "d"]
            assert await texts(store, "hook") == {"a": "another"}

    @proves("DO1", "DO3")
    async def test_a_dropped_document_starts_again_at_revision_one(self) -> None:
        async with self.opened() as store:
            await put(store, a_document("a"), a_document("a", "new", revision=2), a_document("b"))
            assert await drop(store, "b", "a", "none") == [True, True, False]
            assert await drop(store, "a") == [False]
            assert await put(store, a_document("a", "born again")) == [True]
            assert await texts(store) == {"a": "born again"}

    @proves("DO1", "DO3")
    async def test_documents_are_put_and_dropped_in_the_order_of_the_call(self) -> None:
        async with self.opened() as store:
            await put(store, a_document("a"), a_document("b"), a_document("b", kind="hook"))
            dropped, first = DocumentDrop("key", "a"), a_document("a", "again")
            assert await store.put_documents([dropped, first, dropped, dropped, first], now=NOW) == [
                True, True, True, False, True,
            ]  # fmt: skip
            drops = [DocumentDrop("hook", "b"), DocumentDrop("key", "b")]
            mixed: list[Document | DocumentDrop] = [
                *drops,
                a_document("c"),
                DocumentDrop("key", "c"),
                a_document("a", "late"),
            ]
            assert await store.put_documents(mixed, now=NOW) == [True] * 4 + [False]
            assert (await texts(store), await texts(store, "hook")) == ({"a": "again"}, {})

    @proves("DO3")
    async def test_an_expired_document_is_dropped_as_one_that_existed(self) -> None:
        async with self.opened() as store:
            await put(store, a_document("a", expires_at=later(1)))
            assert await drop(store, "a", now=later(2)) == [True]

    # pruning

    @proves("P4")
    async def test_prune_deletes_expired_documents_and_old_audit_entries(self) -> None:
        async with self.opened() as store:
            await store.record([an_entry(n) for n in range(4)])
            await put(
                store, a_document("a", expires_at=later(1)), a_document("b", expires_at=later(9)), a_document("c")
            )
            assert (await store.prune({}, audited_since=later(2), now=later(1))).rows == 3
            assert [entry.at for entry in await store.audit(AuditFilter(), limit=100)] == [later(3), later(2)]
            assert list(await texts(store, now=later(1))) == ["b", "c"]
            assert (await store.prune({}, audited_since=later(2), now=later(1))).rows == 0

    @proves("P4")
    async def test_prune_leaves_nothing_if_it_deleted_fewer_than_min_pruned_rows(self) -> None:
        async with self.opened() as store:
            old = [a_document(f"{n}", expires_at=NOW) for n in range(3 * MIN_PRUNED_ROWS)]
            await put(store, *old, now=later(-1))
            await store.record([an_entry(n) for n in range(2 * MIN_PRUNED_ROWS)])
            gone = [MIN_PRUNED_ROWS]
            while gone[-1] >= MIN_PRUNED_ROWS:
                gone.append((await store.prune({}, audited_since=later(9999), now=NOW)).rows)
            assert sum(gone[1:]) == 5 * MIN_PRUNED_ROWS
            assert (await store.prune({}, audited_since=later(9999), now=NOW)).rows == 0
