"""The steps of the twin that are about documents, the audit trail and news."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from ..records.audit import AuditEntry, AuditFilter
from ..records.document import Document
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
KEEPER_STEPS: list[tuple[int, str, dict[str, st.SearchStrategy[Any]]]] = [
    (3, "put_documents", {"documents": st.lists(_documents, min_size=1, max_size=4), "names": _some_names}),
    (1, "drop_documents", {"kind": _kinds, "names": _some_names}),
    (2, "record", {"acts": st.lists(_acts, min_size=1, max_size=3), "again": _again}),
    (1, "tidy", {"age": st.sampled_from([0, 5, 60]), "acts": st.lists(_acts, max_size=2)}),
    (1, "publish", {"news": _news, "spans": st.sampled_from([(20, 5), (9, 0, 5), ()])}),
]


class KeeperSteps:
    """What the service does, on both stores alike; each step also reads in every way there is."""

    now: datetime
    recorded: tuple[AuditEntry, ...] = ()
    tidied: datetime | None = None
    """Entries from before then may be gone on one side and not yet on the other: nobody asks for them."""

    def _both(self, verb: Callable[[Store], Awaitable[T]], learn: Callable[[T, T], None] | None = None) -> T:
        raise NotImplementedError

    # documents

    def put_documents(self, documents: list[dict[str, Any]], names: list[str]) -> None:
        there = {(one.kind, one.name): one.revision for kind in KINDS for one in self._documents(kind)}
        put = []
        for said in documents:
            expires_at = None if said["expires"] is None else self.now + timedelta(seconds=said["expires"])
            revision = there.get((said["kind"], said["name"]), 0) + said["by"]
            new = Document(kind=said["kind"], name=said["name"], text=said["text"], revision=revision,
                           expires_at=expires_at)  # fmt: skip
            put.append(new)
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
        """Of expired ones it does not matter whether they were still there."""
        there = {document.name for document in self._documents(kind)}

        async def verb(store: Store) -> list[str]:
            return [name for name in await store.drop_documents(kind, names) if name in there]

        self._both(verb)
        self._read_documents(names)

    # the audit trail

    def record(self, acts: list[dict[str, Any]], again: list[tuple[int, str | None]]) -> None:
        count = len(self.recorded)
        new = [AuditEntry(id=ID.format(count + n), at=self.now, **act) for n, act in enumerate(acts)]
        known = [one for one in self.recorded if self.tidied is None or one.at >= self.tidied]
        told = [replace(known[-1 - n % len(known)], who="mallory", outcome=said) for n, said in again if known]
        self.recorded += tuple(new)
        self._both(lambda store: store.record([*new, *told]))
        self._read_trail()

    def _read_trail(self) -> None:
        self._trail()
        self._trail(limit=2, before=ID.format(max(0, len(self.recorded) - 2)))
        self._trail(who="ada")
        self._trail(target="a", until=self.now)
        self._trail(since=self.now, action="jobs")
        for action in ("job", "", "jobs.cancel", "schedules"):
            self._trail(action=action)

    def _trail(self, *, limit: int = 100, before: str | None = None, **which: Any) -> None:
        since = max((at for at in (which.pop("since", None), self.tidied) if at is not None), default=None)
        self._both(lambda store: store.audit(AuditFilter(**which, since=since), limit=limit, before=before))

    def tidy(self, age: float, acts: list[dict[str, Any]]) -> None:
        """How many went is for each store to say; what had to stay is there."""
        self.record(acts, [])
        since = self.now - timedelta(seconds=age)
        self.tidied = max(since, self.tidied or since)

        async def verb(store: Store) -> bool:
            return await store.tidy(audited_since=since, now=self.now) >= 0

        self._both(verb)
        self._read_trail()
        self._read_documents([])

    # news

    def publish(self, news: list[str], spans: Sequence[float]) -> None:
        self._both(lambda store: store.publish(news, now=self.now))
        for span in spans:
            self._watch(span)
        self._both(lambda store: store.watched())
        for after in (0, 1, 5):
            self._news(after)

    def _watch(self, span: float) -> None:
        self._both(lambda store: store.watch(until=self.now + timedelta(seconds=span), now=self.now))

    def _news(self, after: int) -> None:
        self._both(lambda store: store.news(after=after, limit=3))
