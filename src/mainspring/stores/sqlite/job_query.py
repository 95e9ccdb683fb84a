"""The SQL of one list of jobs of the SQLite store: its conditions, walks along the order, and sources along indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ...clock import micros
from ...records.job import FINAL
from ...records.query import Cursor, Filter, Sort
from ..rows import COLUMNS, END_SQL, HELD_INDEX_SQL, SHOWN_SQL, brief_columns, end_texts, prefix_end, stored_states
from .index_groups import READY, RETRIED, IndexGroups, ended_groups
from .out_of_order import earliest_id, latest_id

_FINAL = frozenset(state.value for state in FINAL)
# States of the index mainspring_jobs_held.
_HELD_STATES = frozenset(("running", "paused", "waiting"))
# Stored states that are always shown as they are.
_SHOWN_AS_STORED = _HELD_STATES | {"completed", "dead", "cancelled"}
_COLUMN: dict[Sort, str] = {"created": "id", "due": "run_at", "finished": "finished_at"}
# Forces a walk in order of id, whatever SQLite knows of the values in other columns.
_JOBS_BY_ID = "mainspring_jobs INDEXED BY sqlite_autoindex_mainspring_jobs_1"
# The same of unfinished jobs only, which may be few or many, before or behind finished ones.
_UNFINISHED_BY_ID = "mainspring_jobs INDEXED BY mainspring_jobs_unfinished"
_SUSPECT = "state = 'pending' AND crashes >= 2"
_LATE = "state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now"
_NO_LIMIT = -1  # as a LIMIT
# The rows of a page as one JSON text.
AS_JSON = f"json_group_array(json_array({COLUMNS}))"
_BRIEF_FIELDS = ", ".join(
    f"'{name}', json_extract(options, '$.{name}')" for name in ("tags", "schedule", "scheduled_at")
)
# json_patch drops the fields that are null: tags may not be null.
_BRIEF_OPTIONS = f"""CASE WHEN json_valid(options)
    THEN json_patch('{{}}', json_object({_BRIEF_FIELDS}, 'cut', json('true'))) ELSE '{{' END"""
_BRIEF = brief_columns(_BRIEF_OPTIONS)

_json = msgspec.json.encode


class Source(NamedTuple):
    """A query along an index for every job that may match. Its column `target` is the job's id or n, as `by` says. If
    the index contains the ids, it has them in `of_id`. Unless it is `unique`, it may lead to a job twice."""

    sql: str
    by: str
    head: str = ""
    of_id: str | None = None
    unique: bool = True


class JobQuery:
    """The SQL of one list, and its values, which are always bound."""

    def __init__(
        self,
        which: Filter,
        now: int,
        limit: int,
        after: Cursor | None,
        newest: bool,
        sort: Sort,
        brief: bool = False,
    ) -> None:
        self.which, self.limit, self.newest, self.brief = which, limit, newest, brief
        self.values: dict[str, Any] = {"now": now, "limit": limit}
        self.column, self.by_id = _COLUMN[sort], sort == "created"
        self._direction, self._sign = ("DESC", "<") if newest else ("ASC", ">")
        self._states = stored_states(which) & {"due": {"pending"}, "finished": _FINAL}.get(sort, stored_states(which))
        if which.workers is not None:
            self._states &= {"running"}
        self._ended = ended_groups(sorted(self._states & _FINAL))
        self._groups = READY if sort == "due" else self._ended
        named = (("queue", which.queues), ("task", which.tasks))
        self._names = [self._among(name, items) for name, items in named if items is not None]
        self._conditions = list(self._build_conditions())
        self._shown = self._shown_condition()
        self._after = after
        self._bounds = [*self._after_cursor(), *(self._due_condition() if sort == "due" else ())]

    # conditions

    @property
    def empty(self) -> bool:
        return not self._states or self.limit <= 0

    @property
    def _shown_states(self) -> set[str]:
        """The shown states that the filter asks for; empty if it does not."""
        return set(self.which.states or ())

    def _bind(self, value: Any) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def _among(self, column: str, items: Sequence[str]) -> str:
        if len(items) == 1:
            return f"{column} = {self._bind(items[0])}"
        return f"{column} IN (SELECT value FROM json_each({self._bind(_json(items).decode())}))"

    def _after_cursor(self, by: str = "id") -> list[str]:
        if self._after is None:
            return []
        id, sign, column = self._bind(self._after.id), self._sign, self.column
        if self.by_id:
            return [f"{by} {sign} {id}"]
        at = self._bind(None if self._after.at is None else micros(self._after.at))
        return [f"{column} {sign}= {at}", f"({column} {sign} {at} OR id {sign} {id})"]

    def _id_bounds(self, by: str = "id") -> list[str]:
        """The filter's times of creation as bounds of the id, which hold for all jobs but those out of order."""
        after, before = self.which.created_after, self.which.created_before
        bounds = [] if after is None else [f"{by} >= {self._bind(earliest_id(micros(after)))}"]
        return bounds if before is None else [*bounds, f"{by} <= {self._bind(latest_id(micros(before)))}"]

    def _due_condition(self) -> list[str]:
        """The condition on run_at that the shown state implies for a pending job."""
        if self._shown_states not in ({"scheduled"}, {"pending"}):
            return []
        return [f"run_at {'>' if self._shown_states == {'scheduled'} else '<='} :now"]

    def _shown_condition(self) -> list[str]:
        """The condition on the shown state, where the stored state does not decide it."""
        if self.which.states is None or self._states <= _SHOWN_AS_STORED or self.column == "finished_at":
            return []
        return [self._among(SHOWN_SQL, self.which.states)]

    def _state_conditions(self) -> list[str]:
        if self.by_id and self.which.states is None and self.which.workers is None:
            return []
        return [self._among("state", sorted(self._states)), *self._shown]

    def _build_conditions(self) -> Iterator[str]:
        """All conditions except those on names and states."""
        which = self.which
        if which.ids is not None:
            yield self._among("id", which.ids)
        for tag in which.tags or ():
            yield f"EXISTS (SELECT 1 FROM mainspring_tags WHERE tag = {self._bind(tag)} AND job_id = id)"
        if which.workers is not None:
            yield self._among("worker", which.workers)
        if which.errors is not None:
            yield f"error IS NOT NULL AND {self._among('error', which.errors)}"
        if which.schedules is not None:
            # Not by the key alone: keys of "a:5" begin like those of "a", and an application may use such a key.
            made_by = "CASE WHEN json_valid(options) THEN json_extract(options, '$.schedule') END"
            yield self._among(made_by, which.schedules)
        if which.key_prefix is not None:
            span = self._prefixed()
            yield f"({span.format('unique_key')} OR {span.format('idempotency_key')})"
        if which.ends is not None:
            yield self._among(END_SQL, end_texts(which.ends))
        yield from self._created_bounds()

    def _created_bounds(self) -> list[str]:
        pairs = ((self.which.created_after, ">="), (self.which.created_before, "<="))
        return [f"created_at {sign} {self._bind(micros(at))}" for at, sign in pairs if at is not None]

    def _scheduled(self) -> str:
        spans = [
            f"(key >= {self._bind(f'schedule:{name}:')} AND key < {self._bind(f'schedule:{name};')})"  # ";" follows ":"
            for name in self.which.schedules or ()
        ]
        return " OR ".join(spans) or "0"

    def _prefixed(self) -> str:
        prefix = self.which.key_prefix or ""
        last = prefix_end(prefix)
        until = "" if last is None else f" AND {{0}} < {self._bind(last)}"
        return f"({{0}} >= {self._bind(prefix)}{until})"

    # pages

    @property
    def ordered(self) -> bool:
        """Whether the sort order itself leads to the page: there are no conditions but on the groups."""
        return not (self._conditions or self._shown or (self.by_id and (self._names or self._state_conditions())))

    def nearby_page(self, rows: int) -> str:
        """The matching jobs among the next `rows` in the sort order."""
        return self._walk(rows) if self.by_id else self._first(rows)

    def full_walk(self) -> str:
        """A walk along the sort order until the page is full."""
        if self.by_id:
            return self._walk(_NO_LIMIT)
        if self.ordered:
            return self._first(self.limit)
        walk = self._merged([*self._bounds, *self._shown, *self._conditions], self.limit)
        return self._page(walk, "n", [], f"WITH RECURSIVE {self._requested_groups(self._groups)}")

    def _walk(self, rows: int) -> str:
        conditions = [*self._names, *self._state_conditions(), *self._conditions]
        if not self.which.tags:
            table, when = (_JOBS_BY_ID, []) if self._states & _FINAL else (_UNFINISHED_BY_ID, ["finished_at IS NULL"])
            ahead = _all([*when, *self._bounds, *self._id_bounds()])
            walk = f"SELECT n AS target FROM {table} WHERE {ahead} ORDER BY id {self._direction} LIMIT {rows}"
            return self._page(walk, "n", conditions)
        # Along the tag's index: a page costs the same however many jobs have the tag.
        tag = f"tag = {self._bind(self.which.tags[0])}"
        ahead = _all([tag, *self._after_cursor("job_id"), *self._id_bounds("job_id")])
        order = f"job_id {self._direction}"
        walk = f"SELECT job_id AS target FROM mainspring_tags WHERE {ahead} ORDER BY {order} LIMIT {rows}"
        return self._page(walk, "id", conditions)

    def _page(self, walk: str, by: str, conditions: Sequence[str], head: str = "") -> str:
        """The matching jobs of a walk as one JSON text: row by row, this thread would give up the interpreter lock for
        each, and wait for the event loop to get it back."""
        return f"""{head} SELECT {AS_JSON} FROM (SELECT {_BRIEF if self.brief else COLUMNS}
            FROM ({walk}) AS walk CROSS JOIN mainspring_jobs ON {by} = target WHERE {_all(conditions)} LIMIT :limit)"""

    def _first(self, rows: int) -> str:
        """The matching jobs among the first `rows` of the merged groups. A prefix of each group yields the `edge`: up
        to it the groups together have `rows` jobs, so no group is read beyond it."""
        groups, column, way = self._groups, self.column, self._direction
        mine = _all([groups.one, *self._bounds])
        share = f"(SELECT 4 * {rows} / max(count(*), 1) + 1 FROM {groups.name})"
        head = f"""WITH RECURSIVE {self._requested_groups(groups, *self._bounds)}, edge (at) AS MATERIALIZED (
            SELECT {column} FROM {groups.name} CROSS JOIN mainspring_jobs ON n IN (
                SELECT n FROM {groups.table} WHERE {mine} ORDER BY {column} {way} LIMIT {share})
            ORDER BY {column} {way} LIMIT 1 OFFSET {rows - 1})"""
        sign, none = (">=", -(2**62)) if self.newest else ("<=", 2**62)
        edge = f"{column} {sign} coalesce((SELECT at FROM edge), {none})"
        walk = self._merged([edge, *self._bounds], rows)
        return self._page(walk, "n", [*self._shown, *self._conditions], head)

    def _merged(self, parts: Sequence[str], rows: int) -> str:
        """The first `rows` of each group, merged to the first `rows` of all."""
        groups, order = self._groups, f"{self.column} {self._direction}, id {self._direction}"
        one = f"SELECT n FROM {groups.table} WHERE {_all([groups.one, *parts])} ORDER BY {order} LIMIT {rows}"
        arms = [f"SELECT n, {self.column}, id FROM {groups.name} CROSS JOIN mainspring_jobs ON n IN ({one})"]
        if groups is READY:
            suspects = _all([_SUSPECT, *self._names, *parts])
            arms.append(f"""SELECT * FROM (SELECT n, run_at, id FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects
                WHERE {suspects} ORDER BY {order} LIMIT {rows})""")
        return f"SELECT n AS target FROM ({' UNION ALL '.join(arms)}) ORDER BY {order} LIMIT {rows}"

    def _requested_groups(self, groups: IndexGroups, *ahead: str) -> str:
        """The groups that the filter asks for; with `ahead`, only those with jobs that meet it."""
        parts = [f"of_{name}" for name in self._names]
        if ahead:
            parts.append(f"EXISTS (SELECT 1 FROM {groups.table} WHERE {_all([groups.one, *ahead])})")
        if "state" in groups.columns:
            parts.append(self._among("of_state", sorted(self._states & _FINAL)))
        return f"{groups.hops}, {groups.name} AS MATERIALIZED (SELECT * FROM {groups.name}_hops WHERE {_all(parts)})"

    # sources

    def indexed_sources(self) -> Iterator[Source]:
        """A source for each condition that has an index of its own."""
        which = self.which
        if which.ids is not None:
            ids = self._bind(_json(which.ids).decode())
            yield _by_id(f"SELECT value AS target FROM json_each({ids})", unique=False)
        for tag in which.tags or ():
            yield _by_id(f"SELECT job_id AS target FROM mainspring_tags WHERE tag = {self._bind(tag)}")
        if which.key_prefix is not None:
            span = self._prefixed().format("key")
            yield _by_id(f"SELECT job_id AS target FROM mainspring_keys WHERE {span}", unique=False)
        if which.schedules is not None:
            keys = f"SELECT job_id AS target FROM mainspring_keys WHERE {self._scheduled()}"
            yield _by_id(keys, unique=False)
        if which.errors is not None:
            error = self._among("error", which.errors)
            yield _by_id(f"SELECT job_id AS target FROM mainspring_errors WHERE {error}")
        if self._states <= _HELD_STATES or self._shown_states in ({"expired"}, {"retrying"}):
            yield self.grouped_source()

    def sources(self) -> Iterator[Source]:
        """Every source that leads to all matching jobs."""
        if self._names or self.which.states is not None:
            yield self.grouped_source()
        yield from self.indexed_sources()
        if not self.by_id:
            yield from self.sources_by_time()

    def sources_by_time(self) -> Iterator[Source]:
        """The jobs of the times of creation that the filter asks for, if it does."""
        if bounds := self._id_bounds():
            outside = _all([*self._created_bounds(), f"NOT ({_all(self._id_bounds('job_id'))})"])
            ids = f"SELECT id AS target FROM {_JOBS_BY_ID} WHERE {_all(bounds)}"
            yield _by_id(f"{ids} UNION ALL SELECT job_id FROM mainspring_odd WHERE {outside}")

    def near_source(self, rows: int, *, newest: bool) -> Source:
        """The newest or oldest `rows` jobs in an order in which matching jobs are near each other."""
        way = "DESC" if newest else "ASC"
        if self.which.schedules is not None or self.which.key_prefix is not None:
            keys = self._prefixed().format("key") if self.which.schedules is None else self._scheduled()
            return _by_id(
                f"SELECT job_id AS target FROM mainspring_keys WHERE {keys} ORDER BY key {way} LIMIT {rows}",
                unique=False,
            )
        if self.which.tags:
            tag = f"tag = {self._bind(self.which.tags[0])}"
            return _by_id(f"SELECT job_id AS target FROM mainspring_tags WHERE {tag} ORDER BY 1 {way} LIMIT {rows}")
        ahead = _all(self._id_bounds())
        return _by_id(f"SELECT id AS target FROM {_JOBS_BY_ID} WHERE {ahead} ORDER BY id {way} LIMIT {rows}")

    @property
    def out_of_order(self) -> Source | None:
        """The jobs that id bounds miss, if the filter asks for times of creation."""
        if not self.by_id or not (times := self._created_bounds()):
            return None
        return _by_id(f"SELECT job_id AS target FROM mainspring_odd WHERE {_all(times)}")

    @property
    def _has_ids(self) -> bool:
        """Whether the index of the requested state contains the ids: jobs far between by id are together in it."""
        return self.by_id and self._shown_states in ({"scheduled"}, {"retrying"})

    @property
    def source_of_ids(self) -> Source | None:
        return self.grouped_source() if self._has_ids else None

    def grouped_source(self) -> Source:
        """The jobs of the requested states, and of the requested names where an index begins with them."""
        head = f"WITH RECURSIVE {self._requested_groups(READY)}, {self._requested_groups(self._ended)}"
        return Source(" UNION ALL ".join(self._state_arms()), "n", head, "of_id" if self._has_ids else None)

    def _state_arms(self) -> Iterator[str]:
        if held := sorted(self._states & _HELD_STATES):
            state = self._among("state", held)
            table = "mainspring_jobs INDEXED BY mainspring_jobs_held"
            yield f"SELECT n AS target FROM {table} WHERE {HELD_INDEX_SQL} AND {state}"
        if "pending" in self._states:
            yield from self._pending_arms()
        if self._states & _FINAL:
            yield f"SELECT n AS target FROM ended CROSS JOIN {self._ended.table} WHERE {self._ended.one}"

    def _pending_arms(self) -> Iterator[str]:
        wanted, id = self._shown_states - _SHOWN_AS_STORED, ", id AS of_id" if self._has_ids else ""
        if wanted == {"expired"}:  # those that no claim has expired yet
            yield f"SELECT n AS target FROM mainspring_jobs INDEXED BY mainspring_jobs_expiring WHERE {_LATE}"
            return
        if wanted == {"retrying"}:
            yield f"SELECT n AS target{id} FROM {RETRIED}"
        else:
            due = _all([READY.one, *self._due_condition()])
            yield f"SELECT n AS target{id} FROM ready CROSS JOIN {READY.table} WHERE {due}"
        yield f"SELECT n AS target{id} FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects WHERE {_SUSPECT}"

    def size(self, source: Source, limit: int) -> str:
        """The number of jobs that a source leads to, at most `limit` + 1."""
        return f"{source.head} SELECT count(*) FROM (SELECT 1 FROM ({source.sql}) LIMIT {limit + 1})"

    def counts_of(self, source: Source, rows: int) -> str:
        """For each shown state of the first `rows` jobs of a source: how many these are, and how many of them match."""
        matches = _all([*self._names, *self._state_conditions(), *self._conditions])
        once = "" if source.unique else "DISTINCT"
        return f"""{source.head} SELECT {SHOWN_SQL}, count(*), sum({matches})
            FROM (SELECT {once} target FROM ({source.sql}) LIMIT {rows})
            CROSS JOIN mainspring_jobs ON {source.by} = target GROUP BY 1"""

    def page_by_ids(self, source: Source, rows: int) -> str:
        """The matching jobs among the next `rows` of a source that has ids: only jobs up to the last one are read."""
        of_id = source.of_id or source.by
        ahead = _all([*self._after_cursor(of_id), *self._id_bounds(of_id)])
        once = "" if source.unique else "GROUP BY target"
        walk = f"""SELECT target FROM ({source.sql}) WHERE {ahead} {once}
            ORDER BY {of_id} {self._direction} LIMIT {rows}"""
        return self._page(walk, source.by, [*self._names, *self._state_conditions(), *self._conditions], source.head)

    def sorted_page(self, source: Source) -> str:
        """The matching jobs of a source, sorted."""
        if self.by_id and source.of_id is not None and self.out_of_order is None:
            return self.page_by_ids(source, _NO_LIMIT)
        conditions = _all([*self._names, *self._state_conditions(), *self._conditions, *self._bounds])
        # The plus signs keep SQLite from walking through all jobs in order to avoid a sort.
        order = f"+{self.column} {self._direction}, +id {self._direction}"
        once = "" if source.unique else "DISTINCT"
        walk = f"""SELECT n AS target FROM (SELECT {once} target FROM ({source.sql})) AS source
            CROSS JOIN mainspring_jobs ON {source.by} = source.target
            WHERE {conditions} ORDER BY {order} LIMIT :limit"""
        return self._page(walk, "n", [], source.head)


def _by_id(sql: str, *, unique: bool = True) -> Source:
    return Source(sql, "id", "", "target", unique)


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts) or "1"
