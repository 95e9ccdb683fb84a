"""The steps of the twin test about documents, the audit log and the feed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from ..records.audit import AuditEntry, AuditFilter
from ..records.document import Document, DocumentDrop
from ..store import Store

T = TypeVar("T")
KINDS, NAMES = ("key", "hook"), ("", "a", "a b", "ü")
ACTIONS = ("jobs.cancel", "jobs.retry", "jobsx.retry", "schedules.pause")
ID = "01900000-0000-7000-8000-{:012}"

_kinds, _names = st.sampled_from(KINDS), st.sampled_from(NAMES)
_some_names = st.lists(_names, max_size=3)
_documents = st.fixed_dictionaries(
    {
        "kind": _kinds,
        "name": _names,
        "text": st.sampled_from(["", "é 'x' {1} \\"]),
        "by": st.sampled_from([1, 1, 1, 0, 2, -1]),
        "expires": st.sampled_from([None, None, 0, 0.000001, 5, 30]),
    }
)
_outcomes = st.sampled_from([None, None, '{"done":1}', '{"error":"é"}'])
_acts = st.fixed_dictionaries(
    {
        "who": st.sampled_from(["ada", "bob:'%_"]),
        "action": st.sampled_from(ACTIONS),
        "target": st.sampled_from(["a", '{"ids":["é"]}']),
        "outcome": _outcomes,
    }
)
_again = st.lists(st.tuples(st.integers(0, 4), _outcomes), max_size=2)
_news = st.lists(st.sampled_from(["", "é\n", '{"a":1}']), max_size=3)
DOCUMENT_STEPS: list[tuple[int, str, dict[str, st.SearchStrategy[Any]]]] = [
    (3, "put_documents", {"documents": st.lists(_documents, min_size=1, max_size=4), "names": _some_names}),
    (1, "drop_documents", {"kind": _kinds, "names": _some_names}),
    (2, "record", {"acts": st.lists(_acts, min_size=1, max_size=3), "again": _again}),
    (1, "prune_rows", {"age": st.sampled_from([0, 5, 60]), "acts": st.lists(_acts, max_size=2)}),
    (1, "publish", {"news": _news, "spans": st.sampled_from([(20, 5), (9, 0, 5), ()])}),
]


class DocumentSteps:
    """Steps that write documents, audit entries and feed entries; each also reads them back in every way."""

    now: datetime
    recorded: tuple[AuditEntry, ...] = ()
    tidied: datetime | None = None
    """Audit entries older than this may be pruned in one store and not yet in the other, so they are not compared."""

    def _both(self, verb: Callable[[Store], Awaitable[T]], learn: Callable[[T, T], None] | None = None) -> T:
        raise NotImplementedError

    # documents

    def put_documents(self, documents: list[dict[str, Any]], names: list[str]) -> None:
        there = {(one.kind, one.name): one.revision for kind in KINDS for one in self._documents(kind)}
        put = []
        for one in documents:
            kind, name, text, expires = one["kind"], one["name"], one["text"], one["expires"]
            expires_at = None if expires is None else self.now + timedelta(seconds=expires)
            revision = there.get((kind, name), 0) + one["by"]
            put.append(Document(kind=kind, name=name, text=text, revision=revision, expires_at=expires_at))
        self._both(lambda store: store.put_documents(put, now=self.now))
        self._both(lambda store: store.put_documents(put[:1], now=self.now))
        self._read_documents(names)

    def _read_documents(self, names: list[str]) -> None:
        for kind in KINDS:
            self._documents(kind)
            self._documents(kind, limit=2)
            self._documents(kind, after="a")
            self._documents(kind, names)
            self._documents(kind, names, limit=1, after="")

    def _documents(
        self, kind: str, names: list[str] | None = None, *, limit: int = 100, after: str | None = None
    ) -> list[Document]:
        return self._both(lambda store: store.documents(kind, names, now=self.now, limit=limit, after=after))

    def drop_documents(self, kind: str, names: list[str]) -> None:
        """Compares only documents that had not expired: a store may have removed expired ones already."""
        there = {document.name for document in self._documents(kind)}

        async def verb(store: Store) -> list[str]:
            drops = [DocumentDrop(kind, name) for name in names]
            answers = await store.put_documents(drops, now=self.now)
            return [one.name for one, existed in zip(drops, answers, strict=True) if existed and one.name in there]

        self._both(verb)
        self._read_documents(names)

    # the audit log

    def record(self, acts: list[dict[str, Any]], again: list[tuple[int, str | None]]) -> None:
        count = len(self.recorded)
        new = [AuditEntry(id=ID.format(count + n), at=self.now, **act) for n, act in enumerate(acts)]
        known = [one for one in self.recorded if self.tidied is None or one.at >= self.tidied]
        repeated = [replace(known[-1 - n % len(known)], who="mallory", outcome=text) for n, text in again if known]
        self.recorded += tuple(new)
        self._both(lambda store: store.record([*new, *repeated]))
        self._read_audit()

    def _read_audit(self) -> None:
        self._audit()
        self._audit(limit=2, before=ID.format(max(0, len(self.recorded) - 2)))
        self._audit(who="ada")
        self._audit(target="a", until=self.now)
        self._audit(since=self.now, action="jobs")
        for action in ("job", "", "jobs.cancel", "schedules"):
            self._audit(action=action)

    def _audit(self, *, limit: int = 100, before: str | None = None, **which: Any) -> None:
        since = max((at for at in (which.pop("since", None), self.tidied) if at is not None), default=None)
        self._both(lambda store: store.audit(AuditFilter(**which, since=since), limit=limit, before=before))

    def prune_rows(self, age: float, acts: list[dict[str, Any]]) -> None:
        """Stores may prune different numbers of entries; those that must stay are compared."""
        self.record(acts, [])
        since = self.now - timedelta(seconds=age)
        self.tidied = max(since, self.tidied or since)

        async def verb(store: Store) -> bool:
            return (await store.prune({}, audited_since=since, now=self.now)).rows >= 0

        self._both(verb)
        self._read_audit()
        self._read_documents([])

    # the feed

    def publish(self, news: list[str], spans: Sequence[float]) -> None:
        self._both(lambda store: store.publish(news, now=self.now))
        for span in spans:
            self._watch(span)
        self._both(lambda store: store.publish([], now=self.now))
        for after in (0, 1, 5):
            self._news(after)

    def _watch(self, span: float) -> None:
        self._both(lambda store: store.news(after=0, limit=3, until=self.now + timedelta(seconds=span)))

    def _news(self, after: int) -> None:
        self._both(lambda store: store.news(after=after, limit=3))
